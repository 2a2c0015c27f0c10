// The processes that share the matrix: this one only, or the ranks of MPI in a grid.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "lib/base/ranks.h"

namespace lu {

class Ranks : public tenken::Ranks {
  public:
    using tenken::Ranks::broadcast;

    /// Distributes the ranks over P x Q: to row r % P and column r / P, or row by row.
    virtual void make_grid(int p, int q, bool by_rows) {
        (void)p;
        (void)q;
        (void)by_rows;
    }
    int row() const { return row_; }
    int column() const { return column_; }
    /// The rank at a position in the grid.
    int at(int row, int column) const { return by_rows_ ? row * q_ + column : column * p_ + row; }

    virtual void broadcast(void* data, std::size_t bytes, int root) {
        (void)data;
        (void)bytes;
        (void)root;
    }
    /// Sums, element by element, over the ranks of this process row or column, in each of them.
    virtual void sum_in_row(double* data, std::size_t count) {
        (void)data;
        (void)count;
    }
    virtual void sum_in_column(double* data, std::size_t count) {
        (void)data;
        (void)count;
    }

  protected:
    void place(int rank, int p, int q, bool by_rows) {
        p_ = p;
        q_ = q;
        by_rows_ = by_rows;
        row_ = by_rows ? rank / q : rank % p;
        column_ = by_rows ? rank % q : rank / p;
    }

  private:
    int p_ = 1;
    int q_ = 1;
    bool by_rows_ = false;
    int row_ = 0;
    int column_ = 0;
};

/// The ranks of MPI if an MPI launcher has started this process, otherwise this process only.
/// @param program its name, with which messages begin
std::unique_ptr<Ranks> launched_ranks(const std::string& program);

}  // namespace lu
