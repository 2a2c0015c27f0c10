#include <algorithm>

#include "lib/lu/ranks.h"
#include "lib/mpi/ranks.h"

namespace lu {

namespace {

/// MPI counts in ints.
constexpr std::size_t max_bytes = std::size_t{1} << 30;

class MpiRanks : public tenken::mpi::RanksOf<Ranks> {
  public:
    using RanksOf::broadcast;

    explicit MpiRanks(const std::string& program) : RanksOf(program) {}

    void end() override {
        for (MPI_Comm* const one : {&row_ranks_, &column_ranks_}) {
            if (*one != MPI_COMM_NULL) MPI_Comm_free(one);
        }
        RanksOf::end();
    }

    void make_grid(int p, int q, bool by_rows) override {
        place(rank(), p, q, by_rows);
        for (MPI_Comm* const one : {&row_ranks_, &column_ranks_}) {
            if (*one != MPI_COMM_NULL) TENKEN_MPI(MPI_Comm_free(one));
        }
        TENKEN_MPI(MPI_Comm_split(MPI_COMM_WORLD, row(), column(), &row_ranks_));
        TENKEN_MPI(MPI_Comm_split(MPI_COMM_WORLD, column(), row(), &column_ranks_));
        for (MPI_Comm one : {row_ranks_, column_ranks_})
            TENKEN_MPI(MPI_Comm_set_errhandler(one, MPI_ERRORS_RETURN));
    }

    void broadcast(void* data, std::size_t bytes, int root) override {
        for (std::size_t at = 0; at < bytes; at += max_bytes) {
            TENKEN_MPI(MPI_Bcast(static_cast<char*>(data) + at,
                                 static_cast<int>(std::min(max_bytes, bytes - at)), MPI_BYTE, root,
                                 MPI_COMM_WORLD));
        }
    }

    void sum_in_row(double* data, std::size_t count) override { sum(data, count, row_ranks_); }
    void sum_in_column(double* data, std::size_t count) override { sum(data, count, column_ranks_); }

  private:
    static void sum(double* data, std::size_t count, MPI_Comm ranks) {
        constexpr std::size_t maximum = max_bytes / sizeof(double);
        for (std::size_t at = 0; at < count; at += maximum) {
            TENKEN_MPI(MPI_Allreduce(MPI_IN_PLACE, data + at, static_cast<int>(std::min(maximum, count - at)),
                                     MPI_DOUBLE, MPI_SUM, ranks));
        }
    }

    MPI_Comm row_ranks_ = MPI_COMM_NULL;
    MPI_Comm column_ranks_ = MPI_COMM_NULL;
};

}  // namespace

std::unique_ptr<Ranks> launched_ranks(const std::string& program) {
    return std::unique_ptr<Ranks>(tenken::mpi::launched_rank() >= 0 ? new MpiRanks(program) : new Ranks);
}

}  // namespace lu
