/* What the examples sor, halo and ft of crates/mpi compute and send, in C for any MPI: the same grids, sweeps, faces and
   transforms, in the same order, so the results are the same to the last digits.

   programs sor SIZE ITERATIONS | halo SIZE STEPS | ft SIZE      prints: NAME MICROSECONDS RESULT */
#include <complex.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double PI = 3.14159265358979323846;

static int share(int size, int parts, int index) { return (int)((long)size * index / parts); }

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* ---- successive over-relaxation */

static double sweep(double *points, int rows, int columns, int origin, int colour, double omega) {
    double most = 0;
    for (int row = 1; row <= rows; row++)
        for (int column = 1 + (origin + row + colour) % 2; column <= columns; column += 2) {
            double *here = points + row * (columns + 2) + column;
            double mean = (here[-(columns + 2)] + here[columns + 2] + here[-1] + here[1]) / 4;
            double change = omega * (mean - *here);
            *here += change;
            most = fmax(most, fabs(change));
        }
    return most;
}

static void swap_edges(MPI_Comm grid, double *points, int rows, int columns, double *out, double *in) {
    int row = columns + 2, counts[4] = {columns, columns, rows, rows};
    int starts[4] = {0, columns, 2 * columns, 2 * columns + rows};
    for (int outwards = 0; outwards < 2; outwards++) {
        double *to = outwards ? in : out;
        int first = 1 - outwards;
        for (int i = 0; i < columns; i++) {
            to[i] = points[first * row + 1 + i];
            to[columns + i] = points[(rows + outwards) * row + 1 + i];
        }
        for (int i = 0; i < rows; i++) {
            to[starts[2] + i] = points[(1 + i) * row + first];
            to[starts[3] + i] = points[(1 + i) * row + columns + outwards];
        }
    }
    MPI_Neighbor_alltoallv(out, counts, starts, MPI_DOUBLE, in, counts, starts, MPI_DOUBLE, grid);
    for (int i = 0; i < columns; i++) {
        points[1 + i] = in[i];
        points[(rows + 1) * row + 1 + i] = in[columns + i];
    }
    for (int i = 0; i < rows; i++) {
        points[(1 + i) * row] = in[starts[2] + i];
        points[(1 + i) * row + columns + 1] = in[starts[3] + i];
    }
}

static void sor(int size, int iterations) {
    int ranks, dims[2] = {0}, periods[2] = {0}, at[2], rank;
    MPI_Comm grid;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Dims_create(ranks, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &grid);
    MPI_Comm_rank(grid, &rank);
    MPI_Cart_coords(grid, rank, 2, at);
    int first[2], count[2];
    for (int i = 0; i < 2; i++) {
        first[i] = share(size, dims[i], at[i]);
        count[i] = share(size, dims[i], at[i] + 1) - first[i];
    }
    int rows = count[0], columns = count[1];
    double *points = calloc((rows + 2) * (columns + 2), sizeof *points);
    double *out = calloc(4 * (rows + columns), sizeof *out), *in = out + 2 * (rows + columns);
    for (int row = 0; first[1] == 0 && row < rows + 2; row++)
        points[row * (columns + 2)] = 100;
    double omega = 2 / (1 + sin(PI / (size + 1)));
    MPI_Barrier(grid);
    double start = MPI_Wtime();
    for (int iteration = 1; iteration <= iterations; iteration++) {
        double change = 0, most;
        for (int colour = 0; colour < 2; colour++) {
            change = fmax(change, sweep(points, rows, columns, first[0] + first[1], colour, omega));
            swap_edges(grid, points, rows, columns, out, in);
        }
        if (iteration % 10 == 0) {
            MPI_Allreduce(&change, &most, 1, MPI_DOUBLE, MPI_MAX, grid);
            if (most < 1e-9)
                break;
        }
    }
    double took = MPI_Wtime() - start, middle = 0, all;
    int row = size / 2 - first[0], column = size / 2 - first[1];
    if (row >= 0 && row < rows && column >= 0 && column < columns)
        middle = points[(row + 1) * (columns + 2) + column + 1];
    MPI_Reduce(&middle, &all, 1, MPI_DOUBLE, MPI_SUM, 0, grid);
    if (rank == 0)
        printf("sor %.1f %.6f\n", took * 1e6, all);
}

/* ---- halo exchange in three dimensions */

static void halo(int size, int steps) {
    int ranks, rank, dims[3] = {0}, periods[3] = {1, 1, 1}, at[3], near[6];
    MPI_Comm grid;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Dims_create(ranks, 3, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 3, dims, periods, 1, &grid);
    MPI_Comm_rank(grid, &rank);
    MPI_Cart_coords(grid, rank, 3, at);
    int first[3], sites[3], whole[3];
    for (int i = 0; i < 3; i++) {
        first[i] = share(size, dims[i], at[i]);
        sites[i] = share(size, dims[i], at[i] + 1) - first[i];
        whole[i] = sites[i] + 2;
        MPI_Cart_shift(grid, i, 1, &near[2 * i], &near[2 * i + 1]);
    }
    MPI_Datatype own[6], ghosts[6];
    for (int way = 0; way < 6; way++) {
        int i = way / 2, count[3] = {sites[0], sites[1], sites[2]}, start[3] = {1, 1, 1};
        count[i] = 1;
        start[i] = way % 2 ? sites[i] : 1;
        MPI_Type_create_subarray(3, whole, count, start, MPI_ORDER_C, MPI_DOUBLE, &own[way]);
        start[i] = way % 2 ? sites[i] + 1 : 0;
        MPI_Type_create_subarray(3, whole, count, start, MPI_ORDER_C, MPI_DOUBLE, &ghosts[way]);
        MPI_Type_commit(&own[way]);
        MPI_Type_commit(&ghosts[way]);
    }
    size_t plane = (size_t)whole[1] * whole[2], all = plane * whole[0];
    double *values = calloc(all, sizeof *values), *next = calloc(all, sizeof *next), *times = calloc(steps, sizeof *times);
#define EACH                              \
    for (int x = 1; x <= sites[0]; x++)     \
        for (int y = 1; y <= sites[1]; y++) \
            for (int z = 1; z <= sites[2]; z++)
#define AT(x, y, z) ((x)*plane + (size_t)(y)*whole[2] + (z))
    EACH values[AT(x, y, z)] = ((double)(first[0] + x - 1) * size + first[1] + y - 1) * size + first[2] + z - 1;
    for (int step = 0; step < steps; step++) {
        MPI_Request requests[12];
        MPI_Barrier(grid);
        double start = MPI_Wtime();
        for (int way = 0; way < 6; way++)
            MPI_Irecv(values, 1, ghosts[way], near[way], way ^ 1, grid, &requests[way]);
        for (int way = 0; way < 6; way++)
            MPI_Isend(values, 1, own[way], near[way], way, grid, &requests[6 + way]);
        MPI_Waitall(12, requests, MPI_STATUSES_IGNORE);
        times[step] = MPI_Wtime() - start;
        EACH {
            const double *v = values + AT(x, y, z);
            double sum = v[0] + v[-(long)plane] + v[plane] + v[-whole[2]] + v[whole[2]] + v[-1] + v[1];
            next[AT(x, y, z)] = sum / 7;
        }
        double *old = values;
        values = next;
        next = old;
    }
    qsort(times, steps, sizeof *times, compare);
    double slowest, sum = 0, total;
    EACH sum += values[AT(x, y, z)];
    MPI_Reduce(&times[steps / 2], &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, grid);
    MPI_Reduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, 0, grid);
    if (rank == 0)
        printf("halo %.1f %.1f\n", slowest * 1e6, total);
}

/* ---- Fourier transform of a cube, as NPB's FT; as many planes for each rank */

static complex double *roots, *scratch, *line;

static void transform(complex double *line, int len, int back) {
    int half = len / 2;
    for (int run = 1; run < len; run *= 2) {
        for (int start = 0; start < half; start += run) {
            complex double root = back ? conj(roots[start]) : roots[start];
            for (int k = start; k < start + run; k++) {
                complex double a = line[k], b = line[k + half];
                scratch[k + start] = a + b;
                scratch[k + start + run] = (a - b) * root;
            }
        }
        memcpy(line, scratch, len * sizeof *line);
    }
}

static void transform_all(complex double *field, size_t count, int len, int stride, int back) {
    for (size_t block = 0; block < count; block += (size_t)len * stride)
        for (int first = 0; first < stride; first++) {
            complex double *from = field + block + first;
            for (int i = 0; i < len; i++)
                line[i] = from[(size_t)i * stride];
            transform(line, len, back);
            for (int i = 0; i < len; i++)
                from[(size_t)i * stride] = line[i];
        }
}

static unsigned long times_mod(unsigned long a, unsigned long b) {
    return (unsigned long)((unsigned __int128)a * b % (1UL << 46));
}

static double square(int len, int index) {
    double frequency = fmod(index + len / 2, len) - len / 2;
    return frequency * frequency;
}

static void ft(int n) {
    int ranks, rank;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (n % ranks != 0)
        MPI_Abort(MPI_COMM_WORLD, 2);
    int own = n / ranks;
    size_t plane = (size_t)n * n, count = plane * own, part = count / ranks;
    complex double *field = malloc(count * sizeof *field), *spectrum = malloc(count * sizeof *field);
    complex double *out = malloc(count * sizeof *out), *in = malloc(count * sizeof *in);
    double *evolution = malloc(count * sizeof *evolution);
    roots = malloc(n / 2 * sizeof *roots);
    scratch = malloc(n * sizeof *scratch);
    line = malloc(n * sizeof *line);
    for (int k = 0; k < n / 2; k++)
        roots[k] = cos(2 * PI * k / n) + sin(2 * PI * k / n) * I;
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    unsigned long state = 314159265, factor = 1220703125, power = factor;
    for (unsigned long left = 2 * plane * own * rank; left > 0; left /= 2, power = times_mod(power, power))
        if (left % 2)
            state = times_mod(state, power);
    for (size_t i = 0; i < count; i++) {
        double re = (state = times_mod(state, factor)) / (double)(1UL << 46);
        double im = (state = times_mod(state, factor)) / (double)(1UL << 46);
        field[i] = re + im * I;
    }
    transform_all(field, count, n, 1, 0);
    transform_all(field, count, n, n, 0);
    /* To planes of the spectrum: columns along z, one for each x and y. */
    complex double *to = out;
    for (int other = 0; other < ranks; other++)
        for (size_t column = plane / ranks * other; column < plane / ranks * (other + 1); column++)
            for (int z = 0; z < own; z++)
                *to++ = field[z * plane + column];
    MPI_Alltoall(out, 2 * part, MPI_DOUBLE, in, 2 * part, MPI_DOUBLE, MPI_COMM_WORLD);
    const complex double *from = in;
    for (int other = 0; other < ranks; other++)
        for (size_t column = 0; column < plane / ranks; column++, from += own)
            memcpy(spectrum + column * n + other * own, from, own * sizeof *from);
    transform_all(spectrum, count, n, 1, 0);
    for (int y = 0; y < own; y++)
        for (int x = 0; x < n; x++)
            for (int z = 0; z < n; z++)
                evolution[((size_t)y * n + x) * n + z] =
                    exp(-4e-6 * PI * PI * (square(n, x) + square(n, y + own * rank) + square(n, z)));
    double sum[2] = {0}, all[2];
    for (int iteration = 0; iteration < 6; iteration++) {
        for (size_t i = 0; i < count; i++)
            spectrum[i] *= evolution[i];
        memcpy(field, spectrum, count * sizeof *field);
        transform_all(field, count, n, 1, 1);
        to = out;
        for (int other = 0; other < ranks; other++)
            for (size_t column = 0; column < plane / ranks; column++, to += own)
                memcpy(to, field + column * n + other * own, own * sizeof *to);
        MPI_Alltoall(out, 2 * part, MPI_DOUBLE, in, 2 * part, MPI_DOUBLE, MPI_COMM_WORLD);
        from = in;
        for (size_t column = 0; column < plane; column++)
            for (int z = 0; z < own; z++)
                field[z * plane + column] = *from++;
        transform_all(field, count, n, n, 1);
        transform_all(field, count, n, 1, 1);
        sum[0] = sum[1] = 0;
        for (int j = 1; j <= 1024; j++) {
            int x = j % n, y = 3 * j % n, z = 5 * j % n - own * rank;
            if (z >= 0 && z < own) {
                sum[0] += creal(field[((size_t)z * n + y) * n + x]);
                sum[1] += cimag(field[((size_t)z * n + y) * n + x]);
            }
        }
        MPI_Allreduce(sum, all, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    double took = MPI_Wtime() - begun, size = (double)n * n * n;
    if (rank == 0)
        printf("ft %.1f %.8f\n", took * 1e6, all[0] / size);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int size = argc > 2 ? atoi(argv[2]) : 0, more = argc > 3 ? atoi(argv[3]) : 1;
    if (size > 0 && strcmp(argv[1], "sor") == 0)
        sor(size, more);
    else if (size > 0 && more > 0 && strcmp(argv[1], "halo") == 0)
        halo(size, more);
    else if (size > 0 && strcmp(argv[1], "ft") == 0)
        ft(size);
    else
        MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Finalize();
    return 0;
}
