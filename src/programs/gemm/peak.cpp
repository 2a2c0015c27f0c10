#include "programs/gemm/peak.h"

#include <string>

namespace gemm {

namespace {

/// Operations per cycle of one multiprocessor, dense, by NVIDIA's white papers of each architecture ("GV100",
/// "GA100", "H100", "Blackwell"); 0 if not stated there.
double operations_per_cycle(const Precision& precision, const std::string& capability) {
    struct Row {
        const char* capability;
        double fp64, fp64_tensor, fp32, tf32, fp16, int8, fp8, fp4;
    };
    static const Row rows[] = {
        {"6.0", 64, 0, 128, 0, 256, 0, 0, 0},
        {"7.0", 64, 0, 128, 0, 1024, 0, 0, 0},
        {"8.0", 64, 128, 128, 1024, 2048, 4096, 0, 0},
        {"9.0", 128, 256, 256, 2048, 4096, 8192, 8192, 0},
        {"10.0", 128, 128, 256, 4096, 8192, 16384, 16384, 32768},
    };
    for (const Row& row : rows) {
        if (capability != row.capability) continue;
        switch (precision.a) {
            case Element::fp64:
                return precision.units == Units::vector ? row.fp64 : row.fp64_tensor;
            case Element::fp32:
                return row.fp32;
            case Element::tf32:
                return row.tf32;
            case Element::fp16:
            case Element::bf16:
                return row.fp16;
            case Element::int8:
                return row.int8;
            case Element::e4m3:
            case Element::e5m2:
                return row.fp8;
            case Element::e2m1:
                return row.fp4;
        }
    }
    return 0;
}

}  // namespace

tenken::Limit peak_of(const Case& one, const tenken::DeviceDescription& device) {
    const double operations = operations_per_cycle(*one.precision, device.compute_capability);
    if (operations == 0)
        return tenken::Limit::unknown(std::string("operations of ") + one.precision->name +
                                      " a cycle are not known for compute capability " +
                                      device.compute_capability);
    if (!device.sm_clock_max_mhz) return tenken::Limit::unknown("the device does not report its clock");
    const double units = *device.sm_clock_max_mhz * 1e6 * device.multiprocessors * operations / 1e12;
    if (device.memory_clock_mhz && device.memory_bus_bits) {
        // Operands read once, C written once, and read once if it is accumulated.
        const Shape& shape = one.shape;
        const double bytes =
            static_cast<double>(shape.batch) *
            (static_cast<double>(shape.m * shape.k + shape.k * shape.n) * one.precision->operand_bytes() +
             static_cast<double>(shape.m * shape.n) * (one.precision->adds ? 2.0 : 1.0) *
                 static_cast<double>(one.precision->output_bytes()));
        const double bandwidth = 2 * *device.memory_clock_mhz * 1e6 * *device.memory_bus_bits / 8;
        const double memory = shape.operations() / bytes * bandwidth / 1e12;
        if (memory < units && bytes > 4.0 * static_cast<double>(device.l2_bytes))
            return tenken::Limit::known(memory, "TFLOP/s",
                                        "attribute: memory clock x bus width, operands and C once");
    }
    return tenken::Limit::known(units, "TFLOP/s",
                                "attribute: multiprocessors x highest clock x " +
                                    std::to_string(static_cast<int>(operations)) + " operations a cycle");
}

}  // namespace gemm
