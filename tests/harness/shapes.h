// Shapes that the tests count with, written out rather than read from files.
#pragma once

#include "model/model_config.h"

namespace kvlab::testing_shapes {

/// SPEC S13.
inline ModelConfig toy() {
  ModelConfig c;
  c.name = "toy";
  c.architecture = "gpt2";
  c.family = Family::gpt2;
  c.n_layers = 3;
  c.n_heads = 2;
  c.n_kv_heads = 2;
  c.head_dim = 2;
  c.hidden = 4;
  c.ffn_hidden = 8;
  c.vocab_size = 12;
  c.context_length = 1024;
  c.tied_embedding = true;
  return c;
}

inline ModelConfig llama_8b() {
  ModelConfig c;
  c.name = "llama-3.1-8b";
  c.architecture = "llama";
  c.n_layers = 32;
  c.n_heads = 32;
  c.n_kv_heads = 8;
  c.head_dim = 128;
  c.hidden = 4096;
  c.ffn_hidden = 14336;
  c.vocab_size = 128256;
  c.context_length = 131072;
  return c;
}

/// Llama 2 7B: MHA.
inline ModelConfig llama_7b() {
  ModelConfig c = llama_8b();
  c.name = "llama-2-7b";
  c.n_kv_heads = 32;
  c.ffn_hidden = 11008;
  c.vocab_size = 32000;
  c.context_length = 4096;
  return c;
}

/// A small GQA model whose numbers have no common factors to hide behind.
inline ModelConfig odd_gqa() {
  ModelConfig c;
  c.name = "odd";
  c.architecture = "qwen3";
  c.n_layers = 3;
  c.n_heads = 6;
  c.n_kv_heads = 2;
  c.head_dim = 10;
  c.hidden = 14;
  c.ffn_hidden = 22;
  c.vocab_size = 31;
  c.context_length = 256;
  c.qkv_bias = true;
  c.qk_norm = true;
  return c;
}

}  // namespace kvlab::testing_shapes
