# A gateway in a container, from the packages that `npm run pack` has written to build/packages: docs/guides/containers.md.
ARG NODE=22
FROM node:${NODE}-bookworm-slim

COPY build/packages/holdfast-[0-9]*.tgz build/packages/holdfast-anchor-linux-*.tgz /tmp/packages/

# The anchor beside the main package: that is where npm puts it, and PID 1 needs it under a fixed path.
RUN cpu="$(node -p process.arch)" \
 && npm install --global --ignore-scripts --no-audit --no-fund \
      /tmp/packages/holdfast-[0-9]*.tgz /tmp/packages/holdfast-anchor-linux-"$cpu"-*.tgz \
 && ln -s "$(npm root --global)/@holdfast/anchor-linux-$cpu/bin/anchor" /usr/local/bin/holdfast-anchor \
 && rm -rf /tmp/packages /root/.npm \
 && install -d -m 0700 -o node -g node /state \
 && install -d -o node -g node /work

ENV HOLDFAST_HOME=/state
USER node
WORKDIR /work
VOLUME /state

HEALTHCHECK --interval=30s --timeout=10s CMD ["holdfast", "gateway", "status"]

ENTRYPOINT ["holdfast-anchor", "init", "--"]
CMD ["holdfast", "gateway", "run"]
