// Which algorithm of the trial a product of hpl_mxp uses, and what it leaves to the concurrent panel.
#include <vector>

#include "programs/hpl_mxp/tried.h"
#include "unit.h"

using mxp::closest;
using mxp::Low;
using mxp::panel_share;
using mxp::ProductKind;

namespace {

const std::vector<ProductKind> tried = {{Low::fp16, 160000, 4096, 124},
                                        {Low::fp16, 160000, 4096, 0},
                                        {Low::fp16, 80000, 4096, 124},
                                        {Low::fp16, 40000, 4096, 124},
                                        {Low::fp16, 512, 1024, 124}};

}  // namespace

TEST(the_product_tried_with_the_closest_rows_speaks_for_another) {
    CHECK(closest(tried, {Low::fp16, 150000, 4096, 124}) == 0);
    // by ratio: 113,137 lies in the middle of 80,000 and 160,000
    CHECK(closest(tried, {Low::fp16, 114000, 4096, 124}) == 0);
    CHECK(closest(tried, {Low::fp16, 112000, 4096, 124}) == 2);
    CHECK(closest(tried, {Low::fp16, 20000, 4096, 124}) == 3);
}

TEST(nothing_tried_speaks_for_another_depth_format_place_or_size) {
    CHECK(closest(tried, {Low::fp16, 160000, 2048, 124}) == tried.size());
    CHECK(closest(tried, {Low::bf16, 160000, 4096, 124}) == tried.size());
    CHECK(closest(tried, {Low::fp16, 80000, 4096, 0}) == 1);    // without a panel
    CHECK(closest(tried, {Low::fp16, 80000, 4096, 100}) == 2);  // next to a panel, whatever it leaves
    CHECK(closest(tried, {Low::fp16, 10000, 4096, 124}) == 3);  // by 4 exactly
    CHECK(closest(tried, {Low::fp16, 9984, 4096, 124}) == tried.size());
    CHECK(closest(tried, {Low::fp16, 2048, 1024, 124}) == 4);
    CHECK(closest(tried, {Low::fp16, 2560, 1024, 124}) == tried.size());
    CHECK(closest({}, {Low::fp16, 512, 1024, 0}) == 0);
}

TEST(a_panel_longer_than_the_update_beside_it_has_more_multiprocessors) {
    CHECK(panel_share(8, 160000, 1, 132) == 8);
    CHECK(panel_share(8, 54000, 1, 132) == 8);
    CHECK(panel_share(8, 27000, 1, 132) == 16);
    CHECK(panel_share(8, 54000, 2, 132) == 16);    // half of the update each
    CHECK(panel_share(8, 1000, 1, 132) == 32);     // at most four times as many
    CHECK(panel_share(16, 1000, 1, 132) == 33);    // and a quarter of the device
    CHECK(panel_share(64, 160000, 1, 132) == 64);  // it has what is requested
    CHECK(panel_share(0, 1000, 8, 132) == 0);
    CHECK(panel_share(8, 1000, 1, 6) == 5);  // never all
}
