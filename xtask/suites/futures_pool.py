"""A pool of processes: rank 0 hands out tasks, the others compute."""

from mpi4py.futures import MPIPoolExecutor


def square(number):
    return number * number


if __name__ == "__main__":
    with MPIPoolExecutor() as pool:
        print("sum of squares", sum(pool.map(square, range(1000), chunksize=10)))
