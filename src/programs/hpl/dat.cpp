#include "programs/hpl/dat.h"

#include <cstdlib>
#include <sstream>

namespace hpl {

namespace {

constexpr std::int64_t max_values = 20;  // as the reference implementation

class Lines {
  public:
    Lines(const std::string& text, std::string name) : name_(std::move(name)) {
        std::istringstream all(text);
        for (std::string line; std::getline(all, line);) lines_.push_back(line);
    }

    [[noreturn]] void fail(std::size_t line, const std::string& field, const std::string& what) const {
        throw DatError(name_ + ":" + std::to_string(line) + ": " + field + ": " + what);
    }

    const std::string& line(std::size_t number, const std::string& field) const {
        if (number > lines_.size())
            fail(number, field, "the file ends after " + std::to_string(lines_.size()) + " lines");
        return lines_[number - 1];
    }

    /// The first `count` whole numbers of a line, each from `minimum` to `maximum`.
    std::vector<std::int64_t> numbers(std::size_t number, const std::string& field, std::int64_t count,
                                      std::int64_t minimum, std::int64_t maximum) const {
        std::istringstream words(line(number, field));
        std::vector<std::int64_t> found;
        for (std::string word; static_cast<std::int64_t>(found.size()) < count;) {
            if (!(words >> word)) {
                fail(number, field,
                     std::to_string(found.size()) + " values; " + std::to_string(count) + " are announced");
            }
            char* end = nullptr;
            const std::int64_t value = std::strtoll(word.c_str(), &end, 10);
            if (*end != '\0' || word.size() > 18 || value < minimum || value > maximum) {
                fail(number, field,
                     "'" + word + "' is not a whole number from " + std::to_string(minimum) + " to " +
                         std::to_string(maximum));
            }
            found.push_back(value);
        }
        return found;
    }

    std::string word(std::size_t number, const std::string& field) const {
        std::istringstream words(line(number, field));
        std::string found;
        if (!(words >> found)) fail(number, field, "nothing is left on this line");
        return found;
    }

  private:
    std::string name_;
    std::vector<std::string> lines_;
};

}  // namespace

Dat parse_dat(const std::string& text, const std::string& name) {
    const Lines lines(text, name);
    Dat dat;
    const auto counted = [&](std::size_t line, const std::string& how_many) {
        return lines.numbers(line, how_many, 1, 1, max_values).front();
    };
    const std::int64_t device = lines.numbers(4, "device out", 1, 0, 1000000).front();
    if (device == 7) {
        dat.output = Dat::Output::error;
    } else if (device != 6) {
        dat.output = Dat::Output::file;
        dat.output_file = lines.word(3, "output file name");
    }
    dat.n = lines.numbers(6, "Ns", counted(5, "# of problems sizes (N)"), 1, 4000000);
    dat.nb = lines.numbers(8, "NBs", counted(7, "# of NBs"), 1, 4096);
    dat.by_rows = lines.numbers(9, "PMAP process mapping", 1, 0, 1).front() == 0;
    const std::int64_t grids = counted(10, "# of process grids (P x Q)");
    for (std::int64_t one : lines.numbers(11, "Ps", grids, 1, 100000)) dat.p.push_back(static_cast<int>(one));
    for (std::int64_t one : lines.numbers(12, "Qs", grids, 1, 100000)) dat.q.push_back(static_cast<int>(one));
    const std::string threshold = lines.word(13, "threshold");
    char* end = nullptr;
    dat.threshold = std::strtod(threshold.c_str(), &end);
    if (*end != '\0' || !(dat.threshold > 0 && dat.threshold <= 16))
        lines.fail(13, "threshold", "'" + threshold + "' is not a number above 0 and at most 16");
    return dat;
}

}  // namespace hpl
