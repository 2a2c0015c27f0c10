#include "lib/base/stretches.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace tenken {

Stretches::Stretches(std::size_t rivals) : seconds_(rivals) {
    if (rivals == 0) throw std::invalid_argument("stretches of no rivals");
}

void Stretches::run(const std::function<double(std::size_t)>& seconds) {
    for (std::size_t i = 0; i < seconds_.size(); ++i) seconds_[i].push_back(seconds(i));
}

void Stretches::again(const std::function<double(std::size_t)>& seconds) {
    const std::vector<std::size_t> rivals = close();
    if (rivals.size() < 2) return;
    for (std::size_t i = rivals.size(); i-- > 0;) seconds_[rivals[i]].push_back(seconds(rivals[i]));
}

double Stretches::ratio(std::size_t one, std::size_t other) const {
    return mean(other) / mean(one);
}

std::size_t Stretches::best(std::size_t preferred) const {
    const std::size_t first = fastest();
    return ratio(first, preferred) > 1 + worth ? first : preferred;
}

double Stretches::of_best(std::size_t own) const {
    return ratio(own, fastest());
}

double Stretches::mean(std::size_t one) const {
    const std::vector<double>& each = seconds_[one];
    if (each.empty()) throw std::logic_error("a rate before the first stretch");
    return std::accumulate(each.begin(), each.end(), 0.0) / static_cast<double>(each.size());
}

std::size_t Stretches::fastest() const {
    std::size_t found = 0;
    for (std::size_t i = 1; i < seconds_.size(); ++i) {
        if (mean(i) < mean(found)) found = i;
    }
    return found;
}

std::vector<std::size_t> Stretches::close() const {
    const std::size_t first = fastest();
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < seconds_.size(); ++i) {
        if (ratio(i, first) >= near) found.push_back(i);
    }
    return found;
}

}  // namespace tenken
