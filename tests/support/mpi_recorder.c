/* What recorder.c writes down, and each call of MPI that moves data or waits: with the rank that is the other end, or
 * -1 where all take part, and its bytes. With $TENKEN_TEST_LOST=exchange neighbours do not exchange the last word. Compiled by mpicc together with it, and put in front of each rank by LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tenken_test_step(int64_t kind, int64_t value);
void tenken_test_sized(int64_t kind, int64_t value, int64_t size, int64_t more);

/* With TENKEN_TEST_NODE_RANKS, that many ranks, one after the other, are on a node of their own. */
int gethostname(char* name, size_t size) {
    const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *each = getenv("TENKEN_TEST_NODE_RANKS");
    if (each && rank) return snprintf(name, size, "node%d", atoi(rank) / atoi(each)), 0;
    return ((int (*)(char*, size_t))dlsym(RTLD_NEXT, "gethostname"))(name, size);
}
enum { message = -19 };
enum { sends, receives, waits, barrier, allreduce, alltoall, bcast, exchange };

static void note(int call, int rank) {
    tenken_test_step(message, call + 16 * (int64_t)(rank + 1));
}
static void note_sized(int call, int rank, int count, MPI_Datatype type) {
    int bytes = 0;
    PMPI_Type_size(type, &bytes);
    tenken_test_sized(message, call + 16 * (int64_t)(rank + 1), (int64_t)bytes * count, 0);
}

int MPI_Send(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm ranks) {
    note_sized(sends, to, count, type);
    return PMPI_Send(data, count, type, to, tag, ranks);
}
int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm ranks, MPI_Request* r) {
    note_sized(sends, to, count, type);
    return PMPI_Isend(data, count, type, to, tag, ranks, r);
}
int MPI_Recv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm ranks, MPI_Status* status) {
    note_sized(receives, from, count, type);
    return PMPI_Recv(data, count, type, from, tag, ranks, status);
}
int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm ranks, MPI_Request* r) {
    note_sized(receives, from, count, type);
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
    note_sized(allreduce, -1, count, type);
    return PMPI_Allreduce(from, to, count, type, how, ranks);
}
int MPI_Alltoall(const void* from, int count, MPI_Datatype type, void* to, int other, MPI_Datatype as,
                 MPI_Comm ranks) {
    note_sized(alltoall, -1, count, type);
    return PMPI_Alltoall(from, count, type, to, other, as, ranks);
}
int MPI_Bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm ranks) {
    note_sized(bcast, -1, count, type);
    return PMPI_Bcast(data, count, type, root, ranks);
}
int MPI_Sendrecv(const void* data, int count, MPI_Datatype type, int to, int tag, void* into, int other,
                 MPI_Datatype as, int from, int tag_from, MPI_Comm ranks, MPI_Status* status) {
    const char* const lost = getenv("TENKEN_TEST_LOST");
    note_sized(exchange, to, count, type);
    if (lost != NULL && strcmp(lost, "exchange") == 0) {
        /* all but the last word: what is verified to its end is noticed */
        int size = 0;
        MPI_Type_size(type, &size);
        count -= count < 4 / size ? count : 4 / size;
        other -= other < 4 / size ? other : 4 / size;
    }
    return PMPI_Sendrecv(data, count, type, to, tag, into, other, as, from, tag_from, ranks, status);
}
