// One slab of the grid, on the host or on a GPU. Time steps and exchanges are enqueued in
// its two queues and may run later; on the host everything is executed immediately.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lib/base/document.h"
#include "lib/base/verification.h"
#include "programs/stencil/grid.h"

namespace stencil {

/// The problem.
struct Problem {
    int points = 27;
    std::size_t element_bytes = sizeof(double);
    int temporal_block = 1;  ///< steps per pass of a kernel
};

/// Planes of the grid, [begin, end).
struct Range {
    long begin;
    long end;
    long planes() const { return end > begin ? end - begin : 0; }
};

/// The boundary queue has priority over that of the interior.
enum class Queue { boundary, interior };

/// Location of the arrays; empty: the part's own choice.
typedef std::function<std::shared_ptr<void>(std::size_t bytes)> Memory;

class Part {
  public:
    Part(const Layout& layout, int number) : layout_(layout), number_(number) {}
    virtual ~Part() = default;

    const Layout& layout() const { return layout_; }
    /// Its index among all parts of all processes.
    int number() const { return number_; }
    virtual tenken::Subject subject() const = 0;

    /// The first byte of a plane of the grid in array 0 or 1.
    virtual void* plane(int array, long z) = 0;
    virtual std::size_t plane_bytes() const = 0;

    /// Writes its own planes and all fixed cells of both arrays by the formula, and NaN into
    /// the rest of the halos. Waits.
    virtual void fill() = 0;
    /// One pass of `steps` steps from array `from` to the other one, over two ranges of planes, either of
    /// which may be empty. At most Problem::together steps.
    virtual void step(Queue queue, int from, const Range& one, const Range& other, int steps) = 0;
    /// Later work in `later` waits for the present work in `earlier`.
    virtual void order(Queue later, Queue earlier) = 0;
    /// Waits until a queue is empty.
    virtual void wait(Queue queue) = 0;

    /// Deletes all marks and sets the first one after the present work of the queues; mark() sets the next
    /// ones.
    virtual void begin_marks(long maximum) = 0;
    virtual void mark() = 0;
    /// Seconds from mark to mark. Waits.
    virtual std::vector<double> between_marks() = 0;

    /// Whether its own cells in the other array are, bit for bit, `steps` steps after those in array `from`.
    /// Every cell is compared for one step, and one in 61 for more, which take more operations to check.
    /// Waits.
    virtual tenken::ErrorScan compare_pass(int from, int steps) = 0;
    /// Copies planes to host memory in the part's precision, rows without padding. Waits.
    virtual void read(int array, const Range& planes, void* cells) = 0;
    /// For tests: writes a plane in the format of read(). Waits.
    virtual void write(int array, long z, const void* cells) = 0;

  private:
    Layout layout_;
    int number_;
};

}  // namespace stencil
