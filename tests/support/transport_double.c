/* For tests, by LD_PRELOAD: as soon as the file that TENKEN_DOUBLE_BREAK names exists, MPI_Bcast fails in rank 0
   as it does when a transport has lost its peer. */
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

int MPI_Bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm ranks) {
    int rank = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0 && access(getenv("TENKEN_DOUBLE_BREAK"), F_OK) == 0) return MPI_ERR_INTERN;
    return PMPI_Bcast(data, count, type, root, ranks);
}
