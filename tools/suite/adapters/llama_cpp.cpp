// llama.cpp by its public C API: on the CPU, keys and values in F32, no flash attention.
// c++ -O1 llama_cpp.cpp -I llama.cpp/include -I llama.cpp/ggml/include -L LIBRARIES -lllama -lggml -lggml-base -o llama_cpp
// ik_llama.cpp: the same with -include ik_llama.h, which has the names of its API.
#include "llama.h"
#include "texts.h"
#include <algorithm>
static std::string first; // of llama.cpp's error lines
static void refuse(const char *why) { fprintf(stderr, "\n%s %s\n", why, first.c_str()); exit(3); }
static void errors(ggml_log_level level, const char *text, void *) { if (level == GGML_LOG_LEVEL_ERROR && first.empty()) first = text; }
int main(int argc, char **argv) {
    std::string how = argc > 4 ? argv[4] : "--chunk"; // --chunk without a number: all at once
    int id, k = argc > 5 ? atoi(argv[5]) : how == "--step" ? 1 : 1 << 30, n_seq = how == "--batch" ? k : how == "--fork" ? 2 : 1;
    std::vector<int> ids; std::ifstream in(argv[2]); while (in >> id) ids.push_back(id); const int n = ids.size(), half = n / 2;
    setenv("GGML_NO_BACKTRACE", "1", 1); llama_log_set(errors, nullptr); llama_backend_init(); if (how == "--hooks") refuse("no such way: --hooks");
    llama_model_params m = llama_model_default_params(); m.vocab_only = how == "--tokenize";
    llama_model *model = llama_model_load_from_file(argv[1], m); if (!model) refuse("llama_model_load_from_file refused the file");
    auto vocab = llama_model_get_vocab(model); const size_t V = llama_vocab_n_tokens(vocab); std::vector<float> out(n * V);
    std::ofstream answer(argv[3], std::ios::binary);
    for (const std::string &text : m.vocab_only ? read_texts(argv[2]) : std::vector<std::string>()) {
        std::vector<int> t(text.size() + 8); t.resize(llama_tokenize(vocab, text.data(), text.size(), t.data(), t.size(), false, true));
        for (int token : t) { answer << token << ' '; } answer << '\n'; }
    if (m.vocab_only) { answer.close(); _Exit(0); }
    llama_context_params p = llama_context_default_params();
    p.n_ctx = (n + 263) / 256 * 256 * n_seq; p.n_batch = p.n_ctx; p.n_seq_max = n_seq; p.n_threads = p.n_threads_batch = 1;
    p.type_k = p.type_v = GGML_TYPE_F32; p.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    llama_context *c = llama_init_from_model(model, p);
    if (!c) refuse("llama_init_from_model refused the context");
    auto feed = [&](int from, int to, std::vector<int> seqs, bool other) { // the last sequence has our text, if not other
        llama_batch b = llama_batch_init((to - from) * seqs.size() + 1, 0, 1);
        for (int i = from; i < to; i++) for (int s : seqs) { int t = b.n_tokens++; b.token[t] = ids[other || s != seqs.back() ? n - 1 - i : i];
            b.pos[t] = i; b.n_seq_id[t] = 1; b.seq_id[t][0] = s; b.logits[t] = 1; }
        if (b.n_tokens && llama_decode(c, b)) refuse("llama_decode failed");
        for (int t = seqs.size() - 1; t < b.n_tokens && !other; t += seqs.size()) std::copy_n(llama_get_logits_ith(c, t), V, &out[b.pos[t] * V]); };
    if (how == "--step" || how == "--chunk") for (int i = 0; i < n; i = n - i > k ? i + k : n) feed(i, n - i > k ? i + k : n, {0}, false);
    else if (how == "--batch") { std::vector<int> seqs; for (int s = 0; s < k; s++) seqs.push_back(s); feed(0, n, seqs, false); }
    else if (how == "--rewind" || how == "--fork") { feed(0, half, {0}, false); int s = n_seq - 1; if (s) llama_memory_seq_cp(llama_get_memory(c), 0, s, -1, -1);
        feed(half, n, {0}, true); if (!s && !llama_memory_seq_rm(llama_get_memory(c), 0, half, -1)) refuse("llama_memory_seq_rm refused"); feed(half, n, {s}, false); }
    else refuse(("no such way: " + how).c_str());
    answer.write((char *)out.data(), 4 * out.size()); answer.close(); _Exit(0);
}
