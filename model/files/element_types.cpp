// Sizes of every element type of GGUF and safetensors. Only some of them can be converted (tensor_values.cpp); the
// others are listed so that the files that hold them can be checked and their vocabulary used.
#include "model/files/element_types.h"

#include <array>

namespace kvlab {
namespace {

constexpr std::array kTypes = {
    ElementType{"F32", 0, 1, 4},         ElementType{"F16", 1, 1, 2},         ElementType{"Q4_0", 2, 32, 18},
    ElementType{"Q4_1", 3, 32, 20},      ElementType{"Q5_0", 6, 32, 22},      ElementType{"Q5_1", 7, 32, 24},
    ElementType{"Q8_0", 8, 32, 34},      ElementType{"Q8_1", 9, 32, 40},      ElementType{"Q2_K", 10, 256, 84},
    ElementType{"Q3_K", 11, 256, 110},   ElementType{"Q4_K", 12, 256, 144},   ElementType{"Q5_K", 13, 256, 176},
    ElementType{"Q6_K", 14, 256, 210},   ElementType{"Q8_K", 15, 256, 292},   ElementType{"IQ2_XXS", 16, 256, 66},
    ElementType{"IQ2_XS", 17, 256, 74},  ElementType{"IQ3_XXS", 18, 256, 98}, ElementType{"IQ1_S", 19, 256, 50},
    ElementType{"IQ4_NL", 20, 32, 18},   ElementType{"IQ3_S", 21, 256, 110},  ElementType{"IQ2_S", 22, 256, 82},
    ElementType{"IQ4_XS", 23, 256, 136}, ElementType{"I8", 24, 1, 1},         ElementType{"I16", 25, 1, 2},
    ElementType{"I32", 26, 1, 4},        ElementType{"I64", 27, 1, 8},        ElementType{"F64", 28, 1, 8},
    ElementType{"IQ1_M", 29, 256, 56},   ElementType{"BF16", 30, 1, 2},       ElementType{"TQ1_0", 34, 256, 56},
    ElementType{"TQ2_0", 35, 256, 66},   ElementType{"MXFP4", 39, 32, 17},    ElementType{"NVFP4", 40, 64, 36},
    ElementType{"Q1_0", 41, 128, 18},    ElementType{"BOOL", -1, 1, 1},       ElementType{"U8", -1, 1, 1},
    ElementType{"U16", -1, 1, 2},        ElementType{"U32", -1, 1, 4},        ElementType{"U64", -1, 1, 8},
    ElementType{"F8_E4M3", -1, 1, 1},    ElementType{"F8_E5M2", -1, 1, 1},
};

}  // namespace

const ElementType* find_element_type(std::string_view name) {
  for (const ElementType& type : kTypes) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

const ElementType* find_gguf_type(std::uint32_t number) {
  for (const ElementType& type : kTypes) {
    if (type.gguf_number >= 0 && static_cast<std::uint32_t>(type.gguf_number) == number) return &type;
  }
  return nullptr;
}

}  // namespace kvlab
