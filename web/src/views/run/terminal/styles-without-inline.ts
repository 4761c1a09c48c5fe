const HTML = "http://www.w3.org/1999/xhtml";

/** Terminals that are open. */
let users = 0;

/**
 * The page's policy refuses <style> elements and `style` attributes in markup, which xterm.js writes into elements of the
 * global document. As long as the caller does not dispose of the result, such elements write the same through the CSSOM,
 * which the policy allows.
 */
export function stylesWithoutInline(): Disposable {
  users += 1;
  Object.defineProperty(document, "createElement", { configurable: true, value: createElement });
  return {
    [Symbol.dispose]: () => {
      users -= 1;
      // The method of the prototype is seen again.
      if (users === 0) Reflect.deleteProperty(document, "createElement");
    },
  };
}

function createElement(name: string): HTMLElement {
  if (name === "style") return styleElement(document.createElementNS(HTML, "span"));
  const element = document.createElementNS(HTML, name);
  if (name === "span") element.setAttribute = setAttribute;
  return element;
}

function setAttribute(this: HTMLElement, name: string, value: string): void {
  if (name === "style") this.style.cssText = value;
  else Element.prototype.setAttribute.call(this, name, value);
}

/** An element whose text is a style sheet of the page until it is removed. */
function styleElement(element: HTMLElement): HTMLElement {
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  element.hidden = true;
  Object.defineProperty(element, "textContent", {
    set: (css: string) => {
      sheet.replaceSync(css);
    },
  });
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((each) => each !== sheet);
    Element.prototype.remove.call(element);
  };
  return element;
}
