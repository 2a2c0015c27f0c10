#include "lib/file_io/words.h"

#include <cstdio>

namespace file_io {

std::string Mismatch::text() const {
    char text[80];
    std::snprintf(text, sizeof text, "is 0x%08x, expected 0x%08x", found, expected);
    return text;
}

unsigned Mismatch::byte() const {
    unsigned byte = 0;
    for (std::uint32_t difference = found ^ expected; (difference & 0xFF) == 0 && byte < 3; difference >>= 8)
        ++byte;
    return byte;  // the hosts of this suite are little-endian
}

}  // namespace file_io
