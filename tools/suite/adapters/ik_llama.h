/* What ik_llama.cpp calls the functions that llama_cpp.cpp uses. */
#include "llama.h"
#define llama_get_memory(c) c
#define llama_memory_seq_rm llama_kv_cache_seq_rm
#define llama_memory_seq_cp(c, s, d, a, b) llama_kv_cache_seq_cp(c, s, d, a, b)
#define llama_model_get_vocab(model) model
#define llama_vocab_n_tokens llama_n_vocab
#define flash_attn_type flash_attn
#define LLAMA_FLASH_ATTN_TYPE_DISABLED false
#define GGML_TYPE_F32                                                                              \
    GGML_TYPE_F16 // its cache of values can be nothing else without flash attention
