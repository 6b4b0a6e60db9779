/* Of the programs that test both libraries. */
#ifdef MPICH_ABI
#include "mpich.h"
#else
#include <mpi.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int right, const char *what)
{
    if (!right) {
        fprintf(stderr, "wrong: %s\n", what);
        exit(1);
    }
}
