#define SRUN 2
#define SSLEEP 3
#define SSTOP 4
#define SZOMB 5
