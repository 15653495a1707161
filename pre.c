#include <malloc.h>
#include <stdlib.h>
#include <stdint.h>
#include <unistd.h>
#include <sys/mman.h>
__attribute__((constructor)) static void f(void){ int mb=atoi(getenv("PREMB")?:"0"); mallopt(M_TOP_PAD, (mb?mb:1)<<20); free(malloc(200000)); if(mb>0&&getenv("POP")){ uintptr_t e=(uintptr_t)sbrk(0)&~4095ul; uintptr_t s=e-((uintptr_t)mb<<20); madvise((void*)s,(mb<<20),23);} }
