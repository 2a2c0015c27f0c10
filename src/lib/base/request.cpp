#include "lib/base/request.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "lib/base/json.h"
#include "lib/base/optional.h"

namespace tenken {

namespace {

constexpr std::size_t most_bytes = 16 << 20;
constexpr int max_depth = 64;
constexpr std::size_t max_token = 256;
const char* const schema = "tenken-request/1";

/// Closes a file at the end of the block.
class Descriptor {
  public:
    explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
    ~Descriptor() {
        if (descriptor_ >= 0) close(descriptor_);
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int get() const { return descriptor_; }

  private:
    int descriptor_;
};

/// The bytes of a regular file of bounded size; a pipe is rejected before it can block the run.
std::string bytes_of(const std::string& path) {
    const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat found;
    if (file.get() < 0 || fstat(file.get(), &found) != 0) {
        throw std::runtime_error(std::string("cannot read: ") + std::strerror(errno));
    }
    if (!S_ISREG(found.st_mode)) throw std::runtime_error("needs the name of an ordinary file");
    std::string text(most_bytes + 1, '\0');
    std::size_t size = 0;
    while (size < text.size()) {
        const ssize_t count = read(file.get(), &text[size], text.size() - size);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) throw std::runtime_error(std::string("cannot read: ") + std::strerror(errno));
        if (count == 0) break;
        size += static_cast<std::size_t>(count);
    }
    if (size > most_bytes) throw std::runtime_error("has more than 16 MiB");
    text.resize(size);
    return text;
}

/// Parses a JSON text once and stores the strings of the outermost object.
class Reader {
  public:
    explicit Reader(const std::string& text)
        : at_(text.data()), begin_(text.data()), end_(at_ + text.size()) {}

    struct Entry {
        std::string key;
        Optional<std::string> text;  ///< if the value is a string
    };

    std::vector<Entry> object() {
        std::vector<Entry> entries;
        skip_blanks();
        take('{');
        if (!next_is('}')) {
            do {
                Entry entry;
                skip_blanks();
                entry.key = string();
                take(':');
                skip_blanks();
                if (at_ < end_ && *at_ == '"') {
                    entry.text = string();
                } else {
                    value(1);
                }
                entries.push_back(entry);
            } while (next_is(','));
            take('}');
        }
        skip_blanks();
        if (at_ != end_) fail();
        return entries;
    }

  private:
    [[noreturn]] void fail() const {
        throw std::runtime_error("is not JSON at byte " + std::to_string(at_ - begin_ + 1));
    }

    void skip_blanks() {
        while (at_ < end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\n' || *at_ == '\r')) ++at_;
    }

    void take(char wanted) {
        if (!next_is(wanted)) fail();
    }

    bool next_is(char wanted) {
        skip_blanks();
        if (at_ == end_ || *at_ != wanted) return false;
        ++at_;
        return true;
    }

    void word(const char* wanted) {
        for (; *wanted != '\0'; ++wanted, ++at_) {
            if (at_ == end_ || *at_ != *wanted) fail();
        }
    }

    void digits() {
        const char* const first = at_;
        while (at_ < end_ && *at_ >= '0' && *at_ <= '9') ++at_;
        if (at_ == first) fail();
    }

    void number() {
        if (at_ < end_ && *at_ == '-') ++at_;
        const bool zero = at_ < end_ && *at_ == '0';
        const char* const first = at_;
        digits();
        if (zero && at_ - first > 1) fail();
        if (at_ < end_ && *at_ == '.') {
            ++at_;
            digits();
        }
        if (at_ < end_ && (*at_ == 'e' || *at_ == 'E')) {
            ++at_;
            if (at_ < end_ && (*at_ == '+' || *at_ == '-')) ++at_;
            digits();
        }
    }

    unsigned hexadecimal() {
        unsigned code = 0;
        for (int i = 0; i < 4; ++i, ++at_) {
            if (at_ == end_) fail();
            const char c = *at_;
            const int digit = c >= '0' && c <= '9'   ? c - '0'
                              : c >= 'a' && c <= 'f' ? c - 'a' + 10
                              : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                     : -1;
            if (digit < 0) fail();
            code = 16 * code + static_cast<unsigned>(digit);
        }
        return code;
    }

    /// A string; a non-ASCII escape becomes 0x7f, which is not allowed in a token.
    std::string string() {
        word("\"");
        std::string text;
        for (;;) {
            if (at_ == end_ || static_cast<unsigned char>(*at_) < 0x20) fail();
            const char c = *at_++;
            if (c == '"') return text;
            if (c != '\\') {
                text += c;
                continue;
            }
            if (at_ == end_) fail();
            static const char escapes[] = "\"\\/bfnrt";
            static const char meanings[] = "\"\\/\b\f\n\r\t";
            const char* const place =
                static_cast<const char*>(std::memchr(escapes, *at_, sizeof escapes - 1));
            if (place != nullptr) {
                text += meanings[place - escapes];
                ++at_;
            } else if (*at_ == 'u') {
                ++at_;
                const unsigned code = hexadecimal();
                text += code < 0x80 ? static_cast<char>(code) : '\x7f';
            } else {
                fail();
            }
        }
    }

    void value(int depth) {
        if (depth > max_depth) throw std::runtime_error("is nested deeper than 64");
        skip_blanks();
        if (at_ == end_) fail();
        switch (*at_) {
            case '"':
                string();
                return;
            case '{':
                ++at_;
                if (next_is('}')) return;
                do {
                    skip_blanks();
                    string();
                    take(':');
                    value(depth + 1);
                } while (next_is(','));
                take('}');
                return;
            case '[':
                ++at_;
                if (next_is(']')) return;
                do value(depth + 1);
                while (next_is(','));
                take(']');
                return;
            case 't':
                return word("true");
            case 'f':
                return word("false");
            case 'n':
                return word("null");
            default:
                number();
        }
    }

    const char* at_;
    const char* const begin_;
    const char* const end_;
};

Optional<std::string> text_of(const std::vector<Reader::Entry>& entries, const std::string& key) {
    for (const Reader::Entry& entry : entries) {
        if (entry.key == key) return entry.text;
    }
    return {};
}

}  // namespace

std::string token_of_request(const std::string& path) {
    const std::string text = bytes_of(path);
    const std::vector<Reader::Entry> entries = Reader(text).object();
    std::vector<std::string> keys;
    for (const Reader::Entry& entry : entries) keys.push_back(entry.key);
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    if (twice != keys.end()) throw std::runtime_error("has the key " + quoted(*twice) + " twice");
    const Optional<std::string> found = text_of(entries, "schema");
    if (!found || *found != schema) {
        throw std::runtime_error(std::string("needs \"schema\": \"") + schema + "\"" +
                                 (found ? ", has " + quoted(*found) : ""));
    }
    const Optional<std::string> token = text_of(entries, "token");
    const bool good = token && !token->empty() && token->size() <= max_token &&
                      std::all_of(token->begin(), token->end(), [](char c) { return c > ' ' && c < '\x7f'; });
    if (!good)
        throw std::runtime_error("needs a \"token\" of 1 to 256 printable ASCII characters, no blanks");
    return *token;
}

}  // namespace tenken
