/* Tools: vocab.json with pieces that end in </w> (GPT of 2018), and tekken.json. */
#include "support/tok_directory.h"
#include "support/unit.h"

static const char merges[] = "#version: 0.2\nh i</w>\na b\nab c</w>\n";
static const char crlf[] = "#version: 0.2\r\nh i</w>\r\na b\r\nab c</w>\r\n";
static const char pieces[] = "{\"<unk>\":0,\"a\":1,\"b\":2,\"c</w>\":3,\"h\":4,\"i</w>\":5,\"hi</"
                             "w>\":6,\"ab\":7,\"abc</w>\":8}";

TEST(suffix)
{
    struct directory d = {.n = 0};
    struct checkpoint c;
    add_file(&d, "vocab.json", pieces);
    add_file(&d, "merges.txt", merges);
    add_file(&d, "tokenizer_config.json", "{\"tokenizer_class\":\"OpenAIGPTTokenizer\"}");
    reads(&c, &d, 9);
    assert_string_equal(c.vocab.model, "mgpt-bpe");
    assert_memory_equal(c.vocab.suffix.p, "</w>", 5);
    assert_int_equal(c.vocab.unknown, 0);
    assert_int_equal(c.vocab.types[0], TOKEN_UNKNOWN);
    const int32_t ids[] = {4, 5, 6, 1, 2, 7, 7, 3, 8};
    assert_int_equal(arr_len(c.vocab.merge_ids), COUNT(ids));
    assert_memory_equal(c.vocab.merge_ids, ids, sizeof ids);
    ckpt_free(&c);
    d.members[1].bytes = (struct span){(const uint8_t *)crlf, sizeof crlf - 1};
    reads(&c, &d, 9);
    assert_int_equal(arr_len(c.vocab.merge_ids), COUNT(ids));
    assert_memory_equal(c.vocab.merge_ids, ids, sizeof ids);
    ckpt_free(&c);
    d.n--;
    refuses(&d, 9,
            "vocab.json: its pieces end in </w>, and which words they are made of: no file says "
            "(tokenizer.json would)");
    add_file(&d, "tokenizer_config.json", "{\"tokenizer_class\":\"CTRLTokenizer\"}");
    refuses(&d, 9,
            "vocab.json: its pieces end in </w>, and which words they are made of: CTRLTokenizer");
    d.n--;
    add_file(&d, "tokenizer_config.json", "{\"tokenizer_class\":\"BioGptTokenizer\"}");
    refuses(&d, 9,
            "vocab.json: BioGPT's words are those of Moses (sacremoses): not supported; "
            "--no-tokenizer leaves them out");
}

/* A tekken.json of 256 bytes and "ab", with 4 special tokens; `config`, `specials` replace parts. */
static void put_tekken(struct directory *d, char text[40000], const char *config,
                       const char *specials)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *p = text;
    p += sprintf(p, "{\"config\":{%s},\"special_tokens\":%s,\"vocab\":[", config, specials);
    for (int b = 0; b < 256; b++)
        p += sprintf(p, "{\"rank\":%d,\"token_bytes\":\"%c%c==\",\"token_str\":\"\\u%04x\"},", b,
                     digits[b >> 2], digits[(b & 3) << 4], b); /* \u0000, as Mistral's files */
    sprintf(p, "{\"rank\":256,\"token_bytes\":\"YWI=\"},{\"rank\":257,\"token_bytes\":\"YWJh\"}]}");
    d->n = 0;
    add_file(d, "tekken.json", text);
}

#define PATTERN                                                                                    \
    "\"pattern\":\"[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*"  \
    "[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}"     \
    "\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*|\\\\p{N}"                  \
    "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n/]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\""
#define SIZES ",\"default_vocab_size\":261,\"default_num_special_tokens\":4"

/* GPT-2's characters: printable bytes are themselves, the others 256 and so on in their order. */
static void check_byte_tokens(const struct gguf_str *tokens)
{
    uint32_t other = 256;
    for (uint32_t b = 0; b < 256; b++) {
        int printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
        uint32_t code = printable ? b : other++;
        char text[3] = {(char)code};
        if (code > 127) {
            text[0] = (char)(0xC0 | code >> 6);
            text[1] = (char)(0x80 | (code & 63));
        }
        assert_memory_equal(tokens[b].p, text, strlen(text) + 1);
    }
}

TEST(tekken)
{
    static char text[40000];
    struct directory d;
    struct checkpoint c;
    put_tekken(&d, text, PATTERN SIZES, "[{\"rank\":3,\"token_str\":\"[X]\"}]");
    add_file(&d, "generation_config.json", "{\"eos_token_id\":[2,3,70]}");
    add_file(&d, "chat_template.jinja", "{{x}}");
    reads(&c, &d, 261);
    assert_string_equal(c.vocab.model, "gpt2");
    assert_string_equal(c.vocab.pre, "tekken");
    assert_int_equal(arr_len(c.vocab.tokens), 261);
    assert_memory_equal(c.vocab.tokens[3].p, "[X]", 4);
    assert_memory_equal(c.vocab.tokens[0].p, "<unk>", 6);
    assert_int_equal(c.vocab.types[1], TOKEN_CONTROL);
    check_byte_tokens(c.vocab.tokens + 4);               /* after the special tokens */
    assert_memory_equal(c.vocab.tokens[260].p, "ab", 3); /* rank 257 is beyond the size */
    assert_int_equal(arr_len(c.vocab.merges), 1);
    assert_int_equal(c.vocab.bos, 1);
    assert_int_equal(c.vocab.add_bos, 1);
    assert_int_equal(c.vocab.eos, 2);
    assert_int_equal(c.vocab.eot, 3);
    assert_null(c.vocab.ends); /* 70 is text */
    assert_int_equal(c.vocab.chat_template.n, 5);
    ckpt_free(&c);
    put_tekken(&d, text, PATTERN, "[]");
    refuses(
        &d, 261,
        "tekken.json: config: expected pattern, default_vocab_size, default_num_special_tokens");
    put_tekken(&d, text, PATTERN SIZES, "[{\"rank\":4,\"token_str\":\"a\"}]");
    refuses(&d, 261, "tekken.json: special_tokens: an entry without its own rank");
    put_tekken(&d, text, PATTERN SIZES,
               "[{\"rank\":3,\"token_str\":\"a\"},{\"rank\":3,\"token_str\":\"b\"}]");
    refuses(&d, 261, "tekken.json: special_tokens: an entry without its own rank");
    put_tekken(&d, text, "\"pattern\":\"x\"" SIZES, "null");
    refuses(&d, 261, "tekken.json: splitting pattern 'x' is not supported");
    put_tekken(&d, text, PATTERN SIZES, "[]");
    memcpy(strstr(text, "AQ=="), "A$==", 4);
    refuses(&d, 261, "tekken.json: vocab: token_bytes is not base64");
    put_tekken(&d, text, PATTERN SIZES, "[]");
    memcpy(strstr(text, "rank"), "Rank", 4);
    refuses(&d, 261, "tekken.json: vocab: an entry without rank and token_bytes");
}

/* Older files do not name their special tokens: the first 20 have names of Mistral's, the others numbers. */
TEST(tekken_of_old)
{
    static char text[40000];
    struct directory d;
    struct checkpoint c;
    put_tekken(&d, text, PATTERN ",\"default_vocab_size\":279,\"default_num_special_tokens\":22",
               "[]");
    reads(&c, &d, 279);
    const struct {
        int id;
        const char *text;
    } names[] = {{3, "[INST]"},          {9, "[TOOL_CALLS]"},  {11, "<pad>"},
                 {19, "[TOOL_CONTENT]"}, {20, "<SPECIAL_20>"}, {21, "<SPECIAL_21>"}};
    for (size_t i = 0; i < COUNT(names); i++)
        assert_string_equal(c.vocab.tokens[names[i].id].p, names[i].text);
    ckpt_free(&c);
}

/* Which files were looked for. */
TEST(no_tokenizer_is_said)
{
    struct directory d = {.n = 0};
    struct checkpoint c;
    reads(&c, &d, 5);
    assert_null(c.vocab.model);
    assert_non_null(strstr(c.notes[0], "tekken.json nor a known *.tiktoken"));
    ckpt_free(&c);
}
