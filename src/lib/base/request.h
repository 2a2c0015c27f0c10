// The request that a run answers (--request FILE): written by a check, with a unique token.
#pragma once

#include <string>

namespace tenken {

/// The token of a request: the string `token` of a file that contains one JSON object of the schema
/// tenken-request/1. Everything else in it is used only by the judge, but must be valid JSON.
/// @throws std::runtime_error with one line, without the path: the file cannot be read, is not a regular
/// file, has more than 16 MiB, is not JSON (or nested deeper than 64), has a duplicate key in the object,
/// another schema, or no token of 1 to 256 printable ASCII characters
std::string token_of_request(const std::string& path);

}  // namespace tenken
