// A sparse matrix in compressed sparse row format (CSR), and its distribution over threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sparse {

/// `size` uninitialised elements: their pages belong to the threads that first write them.
template <typename T>
class Buffer {
  public:
    Buffer() = default;
    explicit Buffer(std::size_t size) : data_(new T[size]), size_(size) {}
    T* data() { return data_.get(); }
    const T* data() const { return data_.get(); }
    std::size_t size() const { return size_; }
    std::size_t bytes() const { return size_ * sizeof(T); }
    T& operator[](std::size_t i) { return data_[i]; }
    const T& operator[](std::size_t i) const { return data_[i]; }

  private:
    std::unique_ptr<T[]> data_;
    std::size_t size_ = 0;
};

/// Indices are 32 bit, so there are fewer than 2^31 rows, columns and entries.
constexpr std::uint64_t max_entries = 0x7fffffff;

/// Row r has the entries [offsets[r], offsets[r + 1]), with ascending columns and without duplicates.
struct Csr {
    int rows = 0;
    int columns = 0;
    Buffer<int> offsets;  ///< rows + 1
    Buffer<int> column;   ///< by entry
    Buffer<double> value;

    int entries() const { return rows > 0 ? offsets[static_cast<std::size_t>(rows)] : 0; }
    std::uint64_t bytes() const { return offsets.bytes() + column.bytes() + value.bytes(); }
};

/// Bytes of a Csr with this many rows and entries.
std::uint64_t csr_bytes(std::uint64_t rows, std::uint64_t entries);

/// @throws std::runtime_error with the first violation of the format
void check(const Csr& matrix);

/// Turns counts[r + 1], the entries of row r, into offsets; counts[0] must be 0.
/// @throws std::runtime_error if there are 2^31 entries or more
void accumulate(Buffer<int>& counts);

/// Number of entries per row.
struct RowLengths {
    int minimum = 0;
    int maximum = 0;
    double mean = 0;
    double deviation = 0;
    /// Rows with no entry, then with 1, 2-3, 4-7, ... entries.
    std::vector<std::int64_t> histogram;

    /// "0: 12, 1: 3, 2-3: 40, ..." without the empty classes.
    std::string text() const;
};
RowLengths row_lengths(const Csr& matrix);

/// The first rows of `parts` parts (and the end) with about equal numbers of rows plus entries.
std::vector<int> balanced_rows(const Csr& matrix, int parts);

}  // namespace sparse
