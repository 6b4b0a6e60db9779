/* A program that is not linked with the library, and opens it as plug-ins do, for itself alone. It is a job of two
   processes. */
#include "check.h"
#include <dlfcn.h>

/* A function of the library, as a pointer of its type. */
#define FIND(library, name) (*(__typeof__(&name) *)find(library, #name))

static void *find(void *library, const char *name)
{
    static void *found;
    found = dlsym(library, name);
    check(found != NULL, name);
    return &found;
}

int main(int argc, char **argv)
{
    const char *name = "libmpi_abi.so.1";
    void *library;
    int rank, size, sum = 0;
    check(dlsym(RTLD_DEFAULT, "MPI_Init") == NULL, "it is not linked");
    /* With all its symbols at once, none of which others see. */
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        fprintf(stderr, "%s\n", dlerror());
    check(library != NULL && dlsym(RTLD_DEFAULT, "MPI_Init") == NULL, "it is opened");
    FIND(library, MPI_Init)(&argc, &argv);
    FIND(library, MPI_Comm_rank)(MPI_COMM_WORLD, &rank);
    FIND(library, MPI_Comm_size)(MPI_COMM_WORLD, &size);
    FIND(library, MPI_Allreduce)(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    check(size == 2 && sum == 1, "a sum");
    FIND(library, MPI_Finalize)();
    /* Threads and functions at exit are in it, so it stays. */
    check(dlclose(library) == 0 && dlopen(name, RTLD_NOW | RTLD_NOLOAD) != NULL, "it stays in the process");
    return 0;
}
