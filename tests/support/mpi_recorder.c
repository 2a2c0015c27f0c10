/* What recorder.c writes down, and each call of MPI that moves data or waits: with the rank that is the other end, or
 * -1 where all take part. Compiled by mpicc together with it, and put in front of each rank by LD_PRELOAD. */
#include <mpi.h>
#include <stdint.h>

void tenken_test_step(int64_t kind, int64_t value);

enum { message = -19 };
enum { sends, receives, waits, barrier, allreduce, alltoall, bcast };

static void note(int call, int rank) {
    tenken_test_step(message, call + 16 * (int64_t)(rank + 1));
}

int MPI_Send(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm ranks) {
    note(sends, to);
    return PMPI_Send(data, count, type, to, tag, ranks);
}
int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm ranks, MPI_Request* r) {
    note(sends, to);
    return PMPI_Isend(data, count, type, to, tag, ranks, r);
}
int MPI_Recv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm ranks, MPI_Status* status) {
    note(receives, from);
    return PMPI_Recv(data, count, type, from, tag, ranks, status);
}
int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm ranks, MPI_Request* r) {
    note(receives, from);
    return PMPI_Irecv(data, count, type, from, tag, ranks, r);
}
int MPI_Waitall(int count, MPI_Request* requests, MPI_Status* statuses) {
    note(waits, -1);
    return PMPI_Waitall(count, requests, statuses);
}
int MPI_Barrier(MPI_Comm ranks) {
    note(barrier, -1);
    return PMPI_Barrier(ranks);
}
int MPI_Allreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op how, MPI_Comm ranks) {
    note(allreduce, -1);
    return PMPI_Allreduce(from, to, count, type, how, ranks);
}
int MPI_Alltoall(const void* from, int count, MPI_Datatype type, void* to, int other, MPI_Datatype as,
                 MPI_Comm ranks) {
    note(alltoall, -1);
    return PMPI_Alltoall(from, count, type, to, other, as, ranks);
}
int MPI_Bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm ranks) {
    note(bcast, -1);
    return PMPI_Bcast(data, count, type, root, ranks);
}
