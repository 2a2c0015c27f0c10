// The processes that share the matrix: this one alone, or the ranks of MPI in a grid.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/team.h"

namespace hpl {

class Ranks : public tenken::Team {
  public:
    virtual int rank() const { return 0; }
    virtual int size() const { return 1; }
    virtual int local_rank() const { return 0; }
    virtual int local_size() const { return 1; }
    virtual std::vector<std::string> nodes() const { return {}; }
    virtual std::string library() const { return ""; }
    /// Says that work goes on; silence ends a run whose other ranks have died.
    virtual void alive(const std::string& doing) { (void)doing; }
    virtual void set_patience(double seconds) { (void)seconds; }

    /// Deals the ranks out over P x Q: to row r % P and column r / P, or row by row.
    virtual void make_grid(int p, int q, bool by_rows) {
        (void)p;
        (void)q;
        (void)by_rows;
    }
    int row() const { return row_; }
    int column() const { return column_; }
    /// The rank at a place of the grid.
    int at(int row, int column) const { return by_rows_ ? row * q_ + column : column * p_ + row; }

    virtual void barrier() {}
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
    /// The largest of all ranks', element by element, in every rank.
    virtual std::vector<double> largest(std::vector<double> mine) { return mine; }
    virtual std::vector<std::string> gather(const std::string& mine) { return {mine}; }
    virtual std::string broadcast(const std::string& text) { return text; }

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

/// Those of MPI when a launcher of MPI has started this process, else this process alone.
std::unique_ptr<Ranks> make_ranks();

}  // namespace hpl
