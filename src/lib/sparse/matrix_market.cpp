#include "lib/sparse/matrix_market.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <set>

namespace sparse {

namespace {

/// The format allows 1024 characters per line; a comment may be longer.
constexpr std::size_t longest_line = 1024;

bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

/// Lines of a text, without their ends ("\n" or "\r\n"), in bounded memory.
class Lines {
  public:
    Lines(std::unique_ptr<ByteSource> source, std::string name)
        : source_(std::move(source)), name_(std::move(name)), buffer_(std::size_t{1} << 20) {}

    /// Advances to the next line that is not empty and, from the second on, not a comment. @return whether
    /// there is one
    bool next() {
        while (raw_next()) {
            while (begin_ < end_ && is_blank(*begin_)) ++begin_;
            while (begin_ < end_ && (is_blank(end_[-1]) || end_[-1] == '\r')) --end_;
            if (begin_ == end_ || (*begin_ == '%' && number_ > 1)) continue;
            if (static_cast<std::size_t>(end_ - begin_) > longest_line) {
                fail("longer than " + std::to_string(longest_line) + " characters");
            }
            return true;
        }
        return false;
    }

    [[noreturn]] void fail(const std::string& what) const {
        throw MarketError(name_ + ":" + std::to_string(std::max<std::int64_t>(number_, 1)) + ": " + what);
    }
    std::int64_t number() const { return number_; }
    const char* begin() const { return begin_; }
    const char* end() const { return end_; }

  private:
    bool raw_next() {
        at_ = line_end_;
        bool comment = false;
        for (std::size_t looked = at_;;) {
            const void* const found = std::memchr(buffer_.data() + looked, '\n', filled_ - looked);
            if (found != nullptr || (ended_ && at_ < filled_)) {
                ++number_;
                const char* const stop =
                    found != nullptr ? static_cast<const char*>(found) : buffer_.data() + filled_;
                begin_ = buffer_.data() + at_;
                end_ = comment ? begin_ : stop;  // a comment longer than the buffer is discarded
                line_end_ = static_cast<std::size_t>(stop - buffer_.data()) + (found != nullptr ? 1 : 0);
                return true;
            }
            if (ended_) return false;
            if (at_ > 0) {
                std::memmove(buffer_.data(), buffer_.data() + at_, filled_ - at_);
                filled_ -= at_;
                at_ = line_end_ = 0;
            }
            if (filled_ == buffer_.size()) {
                if (!comment && (buffer_[0] != '%' || number_ == 0)) {
                    ++number_;
                    fail("longer than " + std::to_string(longest_line) + " characters");
                }
                comment = true;
                filled_ = 0;
            }
            looked = filled_;
            try {
                const std::size_t got = source_->read(buffer_.data() + filled_, buffer_.size() - filled_);
                ended_ = got == 0;
                filled_ += got;
            } catch (const std::runtime_error& error) {
                throw MarketError(name_ + ": " + error.what() + " (after line " + std::to_string(number_) +
                                  ")");
            }
            if (ended_ && comment && filled_ == 0) return false;
        }
    }

    std::unique_ptr<ByteSource> source_;
    std::string name_;
    std::vector<char> buffer_;
    std::size_t filled_ = 0;
    std::size_t at_ = 0;
    std::size_t line_end_ = 0;
    bool ended_ = false;
    std::int64_t number_ = 0;
    const char* begin_ = nullptr;
    const char* end_ = nullptr;
};

/// The words of a line.
class Words {
  public:
    explicit Words(const Lines& lines) : lines_(lines), at_(lines.begin()) {}

    bool at_end() const { return at_ == lines_.end(); }

    /// A word for messages, without terminal control characters.
    std::string peek() const {
        std::string text;
        for (const char* c = at_; c != lines_.end() && !is_blank(*c) && text.size() < 40; ++c) {
            text += *c >= ' ' && *c <= '~' ? *c : '?';
        }
        return text;
    }

    std::string word() {
        const char* const from = at_;
        while (at_ != lines_.end() && !is_blank(*at_)) ++at_;
        const std::string text(from, at_);
        skip_blanks();
        return text;
    }

    /// A whole number from least to most.
    std::int64_t whole(const char* what, std::int64_t minimum, std::int64_t maximum) {
        const char* c = at_;
        const bool negative = c != lines_.end() && *c == '-';
        if (c != lines_.end() && (*c == '-' || *c == '+')) ++c;
        std::int64_t number = 0;
        const char* const digits = c;
        for (; c != lines_.end() && *c >= '0' && *c <= '9'; ++c) {
            if (number > (std::numeric_limits<std::int64_t>::max() - 9) / 10) bad(what, minimum, maximum);
            number = 10 * number + (*c - '0');
        }
        if (c == digits || (c != lines_.end() && !is_blank(*c))) bad(what, minimum, maximum);
        if (negative) number = -number;
        if (number < minimum || number > maximum) bad(what, minimum, maximum);
        at_ = c;
        skip_blanks();
        return number;
    }

    /// A finite real number.
    double real() {
        static const double power[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                       1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
        const char* c = at_;
        const char* const stop = lines_.end();
        const bool negative = c != stop && *c == '-';
        if (c != stop && (*c == '-' || *c == '+')) ++c;
        std::uint64_t digits = 0;
        int count = 0;  // of significant digits taken
        int shift = 0;
        bool any = false;
        bool point = false;
        for (; c != stop; ++c) {
            if (*c == '.' && !point) {
                point = true;
            } else if (*c >= '0' && *c <= '9') {
                any = true;
                if (count < 19) {
                    digits = 10 * digits + static_cast<std::uint64_t>(*c - '0');
                    if (digits > 0) ++count;
                    if (point) --shift;
                } else {
                    count = 20;  // too many digits for the fast path
                }
            } else {
                break;
            }
        }
        if (any && c != stop && (*c == 'e' || *c == 'E' || *c == 'd' || *c == 'D')) {
            const bool fortran = *c == 'd' || *c == 'D';
            const char* e = c + 1;
            const bool down = e != stop && *e == '-';
            if (e != stop && (*e == '-' || *e == '+')) ++e;
            const char* const first = e;
            int exponent = 0;
            for (; e != stop && *e >= '0' && *e <= '9'; ++e) {
                if (exponent < 100000) exponent = 10 * exponent + (*e - '0');
            }
            if (e == first) any = false;
            shift += down ? -exponent : exponent;
            c = e;
            if (fortran) count = 20;
        }
        if (!any || (c != stop && !is_blank(*c))) bad_real();
        double number = 0;
        if (count < 20 && digits < (std::uint64_t{1} << 53) && shift >= -22 && shift <= 22) {
            // Both numbers are exact as doubles, so one rounding gives the nearest.
            number = static_cast<double>(digits);
            number = shift < 0 ? number / power[-shift] : number * power[shift];
            if (negative) number = -number;
        } else {
            std::string text(at_, c);
            std::replace_if(text.begin(), text.end(), [](char d) { return d == 'd' || d == 'D'; }, 'e');
            number = std::strtod(text.c_str(), nullptr);
        }
        if (!std::isfinite(number)) bad_real();
        at_ = c;
        skip_blanks();
        return number;
    }

    void done() const {
        if (!at_end()) lines_.fail("'" + peek() + "' is more than belongs on this line");
    }

  private:
    void skip_blanks() {
        while (at_ != lines_.end() && is_blank(*at_)) ++at_;
    }
    [[noreturn]] void bad(const char* what, std::int64_t minimum, std::int64_t maximum) const {
        if (at_end()) lines_.fail(std::string(what) + " is missing");
        lines_.fail(std::string(what) + " is '" + peek() + "'; allowed: a whole number from " +
                    std::to_string(minimum) + " to " + std::to_string(maximum));
    }
    [[noreturn]] void bad_real() const {
        if (at_end()) lines_.fail("the value is missing");
        lines_.fail("the value is '" + peek() + "'; allowed: a finite number");
    }

    const Lines& lines_;
    const char* at_;
};

std::string lower(std::string text) {
    for (char& c : text) {
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    return text;
}

/// The next word, in lower case, if it is one of those allowed.
std::string one_of(Words& words, const Lines& lines, const char* what,
                   const std::vector<std::string>& allowed) {
    const std::string shown = words.peek();
    const std::string word = lower(words.word());
    if (std::find(allowed.begin(), allowed.end(), word) != allowed.end()) return word;
    std::string list;
    for (const std::string& one : allowed) list += (list.empty() ? "" : ", ") + one;
    lines.fail(std::string(what) + " is '" + shown + "'; allowed: " + list);
}

MarketHeader read_header(Lines& lines) {
    if (!lines.next()) {
        if (lines.number() == 0) lines.fail("the file is empty");
        lines.fail("no header; a Matrix Market file begins with %%MatrixMarket");
    }
    Words words(lines);
    if (lines.number() != 1 || lower(words.word()) != "%%matrixmarket") {
        lines.fail("no header; a Matrix Market file begins with %%MatrixMarket");
    }
    MarketHeader header;
    one_of(words, lines, "the object", {"matrix"});
    header.coordinate = one_of(words, lines, "the format", {"coordinate", "array"}) == "coordinate";
    const std::string field =
        one_of(words, lines, "the field", {"real", "double", "integer", "unsigned-integer", "pattern"});
    header.pattern = field == "pattern";
    // not in NIST's list of fields, but what scipy.io.mmwrite calls unsigned values
    header.integer = field == "integer" || field == "unsigned-integer";
    header.least = field == "integer" ? -(std::int64_t{1} << 53) : 0;
    if (header.pattern && !header.coordinate) lines.fail("an array cannot be a pattern");
    const std::string symmetry =
        one_of(words, lines, "the symmetry", {"general", "symmetric", "skew-symmetric"});
    header.skew = symmetry == "skew-symmetric";
    header.symmetric = symmetry != "general";
    words.done();

    if (!lines.next()) lines.fail("the file ends before its sizes");
    Words sizes(lines);
    constexpr auto maximum = static_cast<std::int64_t>(max_entries) - 1;
    header.rows = static_cast<int>(sizes.whole("the number of rows", 1, maximum));
    header.columns = static_cast<int>(sizes.whole("the number of columns", 1, maximum));
    if (header.symmetric && header.rows != header.columns) {
        lines.fail("a " + symmetry + " matrix of " + std::to_string(header.rows) + " x " +
                   std::to_string(header.columns) + " is not square");
    }
    const std::int64_t n = header.rows;
    if (header.coordinate) {
        header.entries = sizes.whole("the number of entries", 0, maximum);
    } else {
        header.entries = !header.symmetric ? n * header.columns
                         : header.skew     ? n * (n - 1) / 2
                                           : n * (n + 1) / 2;
        if (header.entries > maximum) lines.fail("an array of more than 2147483646 entries");
    }
    sizes.done();
    return header;
}

/// A stored entry, from 0.
struct Entry {
    int row;
    int column;
    double value;
};

/// Reads the header and passes it to begin(header, lines), then each entry to take(entry, lines).
template <typename Begin, typename Take>
void parse(Lines& lines, const Begin& begin, const Take& take) {
    const MarketHeader header = read_header(lines);
    begin(header, lines);
    std::int64_t read = 0;
    Entry next = {header.skew && !header.coordinate ? 1 : 0, 0, 0};  // of an array, in column-major order
    while (lines.next()) {
        if (read == header.entries) {
            lines.fail("more than the " + std::to_string(header.entries) + " entries announced");
        }
        Words words(lines);
        Entry entry = next;
        if (header.coordinate) {
            entry.row = static_cast<int>(words.whole("the row", 1, header.rows)) - 1;
            entry.column = static_cast<int>(words.whole("the column", 1, header.columns)) - 1;
            if (header.symmetric && entry.row < entry.column + (header.skew ? 1 : 0)) {
                lines.fail(
                    "an entry " + std::string(header.skew && entry.row == entry.column ? "on" : "above") +
                    " the diagonal of a " + (header.skew ? "skew-symmetric" : "symmetric") + " matrix");
            }
        }
        if (header.pattern) {
            entry.value = 1;
        } else if (header.integer) {
            entry.value = static_cast<double>(words.whole("the value", header.least, std::int64_t{1} << 53));
        } else {
            entry.value = words.real();
        }
        words.done();
        take(entry, lines);
        ++read;
        if (!header.coordinate && ++next.row == header.rows) {
            ++next.column;
            next.row = !header.symmetric ? 0 : next.column + (header.skew ? 1 : 0);
        }
    }
    if (read != header.entries) {
        lines.fail("the file ends after " + std::to_string(read) + " of " + std::to_string(header.entries) +
                   " entries");
    }
}

/// Entries in blocks, so that growing never copies.
class Entries {
  public:
    void add(const Entry& entry) {
        if (blocks_.empty() || blocks_.back().size() == block) {
            blocks_.emplace_back();
            blocks_.back().reserve(blocks_.size() == 1 ? 1024 : block);
        }
        blocks_.back().push_back(entry);
    }
    template <typename Visit>
    void each(const Visit& visit) const {
        for (const std::vector<Entry>& entries : blocks_) {
            for (const Entry& entry : entries) visit(entry);
        }
    }
    /// Like each(), and releases every block when it is done.
    template <typename Visit>
    void consume(const Visit& visit) {
        for (std::vector<Entry>& entries : blocks_) {
            for (const Entry& entry : entries) visit(entry);
            std::vector<Entry>().swap(entries);
        }
    }

  private:
    static constexpr std::size_t block = std::size_t{1} << 18;
    std::vector<std::vector<Entry>> blocks_;
};
constexpr std::size_t Entries::block;

/// Sorts the columns of a row with their values. @return whether all of them differ
bool sort_row(int* column, double* value, int count, std::vector<std::pair<int, double>>& scratch) {
    bool ascending = true;
    for (int j = 1; j < count; ++j) ascending = ascending && column[j - 1] < column[j];
    if (ascending) return true;
    scratch.clear();
    for (int j = 0; j < count; ++j) scratch.emplace_back(column[j], value[j]);
    std::sort(
        scratch.begin(), scratch.end(),
        [](const std::pair<int, double>& a, const std::pair<int, double>& b) { return a.first < b.first; });
    bool differ = true;
    for (int j = 0; j < count; ++j) {
        column[j] = scratch[static_cast<std::size_t>(j)].first;
        value[j] = scratch[static_cast<std::size_t>(j)].second;
        differ = differ && (j == 0 || column[j - 1] != column[j]);
    }
    return differ;
}

/// Reads again to find the line of the second occurrence of an entry of this row.
[[noreturn]] void fail_at_duplicate(std::unique_ptr<ByteSource> source, const std::string& name, int row) {
    Lines lines(std::move(source), name);
    std::set<int> seen;
    parse(
        lines, [](const MarketHeader&, const Lines&) {},
        [&](const Entry& entry, const Lines& at) {
            if (entry.row != row && entry.column != row) return;
            const int other = entry.row == row ? entry.column : -1 - entry.row;
            if (!seen.insert(other).second) {
                at.fail("entry " + std::to_string(entry.row + 1) + " " + std::to_string(entry.column + 1) +
                        " is listed twice");
            }
        });
    throw MarketError(name + ": an entry is listed twice, in row " + std::to_string(row + 1));
}

std::string gibibytes(std::uint64_t bytes) {
    char text[40];
    std::snprintf(text, sizeof text, "%.3g GiB", static_cast<double>(bytes) / (1 << 30));
    return text;
}

}  // namespace

std::string MarketHeader::text() const {
    return std::string(coordinate ? "coordinate " : "array ") +
           (pattern   ? "pattern "
            : integer ? "integer "
                      : "real ") +
           (skew        ? "skew-symmetric"
            : symmetric ? "symmetric"
                        : "general");
}

MarketMatrix read_market(const std::function<std::unique_ptr<ByteSource>()>& open, const std::string& name,
                         std::uint64_t max_bytes) {
    MarketMatrix result;
    Csr& matrix = result.matrix;
    Entries entries;
    std::unique_ptr<ByteSource> source;
    try {
        source = open();
    } catch (const std::runtime_error& error) {
        throw MarketError(name + ": " + error.what());
    }
    Lines lines(std::move(source), name);
    parse(
        lines,
        [&](const MarketHeader& header, const Lines& at) {
            const auto stored = static_cast<std::uint64_t>(header.entries);
            const std::uint64_t built =
                csr_bytes(static_cast<std::uint64_t>(header.rows), header.symmetric ? 2 * stored : stored);
            const std::uint64_t asked =
                built + stored * sizeof(Entry) + sizeof(int) * static_cast<std::uint64_t>(header.rows);
            if (asked > max_bytes) {
                at.fail("needs " + gibibytes(asked) + " of memory, free " + gibibytes(max_bytes));
            }
            result.header = header;
        },
        [&](const Entry& entry, const Lines&) { entries.add(entry); });

    const bool mirror = result.header.symmetric;
    matrix.rows = result.header.rows;
    matrix.columns = result.header.columns;
    matrix.offsets = Buffer<int>(static_cast<std::size_t>(matrix.rows) + 1);
    std::fill(matrix.offsets.data(), matrix.offsets.data() + matrix.offsets.size(), 0);
    int* const counts = matrix.offsets.data() + 1;
    entries.each([&](const Entry& entry) {
        ++counts[entry.row];
        if (mirror && entry.row != entry.column) ++counts[entry.column];
    });
    try {
        accumulate(matrix.offsets);
    } catch (const std::runtime_error& error) {
        throw MarketError(name + ": " + error.what());
    }
    matrix.column = Buffer<int>(static_cast<std::size_t>(matrix.entries()));
    matrix.value = Buffer<double>(static_cast<std::size_t>(matrix.entries()));
    Buffer<int> next(static_cast<std::size_t>(matrix.rows));
    std::copy(matrix.offsets.data(), matrix.offsets.data() + matrix.rows, next.data());
    const auto put = [&](int row, int column, double value) {
        const auto at = static_cast<std::size_t>(next[static_cast<std::size_t>(row)]++);
        matrix.column[at] = column;
        matrix.value[at] = value;
    };
    const double mirrored = result.header.skew ? -1 : 1;
    entries.consume([&](const Entry& entry) {
        put(entry.row, entry.column, entry.value);
        if (mirror && entry.row != entry.column) put(entry.column, entry.row, mirrored * entry.value);
    });
    std::vector<std::pair<int, double>> scratch;
    for (int r = 0; r < matrix.rows; ++r) {
        const auto begin = static_cast<std::size_t>(matrix.offsets[static_cast<std::size_t>(r)]);
        const int count = matrix.offsets[static_cast<std::size_t>(r) + 1] - static_cast<int>(begin);
        if (!sort_row(matrix.column.data() + begin, matrix.value.data() + begin, count, scratch)) {
            fail_at_duplicate(open(), name, r);
        }
    }
    return result;
}

MarketMatrix read_market_file(const std::string& path, std::uint64_t max_bytes) {
    return read_market([&] { return open_file(path); }, path, max_bytes);
}

std::vector<std::string> market_files(const std::string& folder) {
    const auto ends_with = [](const std::string& text, const std::string& end) {
        return text.size() > end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
    };
    std::vector<std::string> found;
    std::vector<std::pair<std::string, int>> open = {{folder, 0}};
    while (!open.empty()) {
        const std::pair<std::string, int> here = open.back();
        open.pop_back();
        DIR* const listing = opendir(here.first.c_str());
        if (listing == nullptr) throw MarketError(here.first + ": cannot be read: " + std::strerror(errno));
        while (const dirent* const entry = readdir(listing)) {
            const std::string name = entry->d_name;
            const std::string path = here.first + "/" + name;
            struct stat about;
            if (name[0] == '.' || stat(path.c_str(), &about) != 0) continue;
            if (S_ISDIR(about.st_mode) && here.second < 2) open.emplace_back(path, here.second + 1);
            if (S_ISREG(about.st_mode) && (ends_with(name, ".mtx") || ends_with(name, ".mtx.gz"))) {
                found.push_back(path);
            }
        }
        closedir(listing);
    }
    if (found.empty()) throw MarketError(folder + ": no files *.mtx or *.mtx.gz in this folder");
    std::sort(found.begin(), found.end());
    return found;
}

}  // namespace sparse
