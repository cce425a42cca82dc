// The texts of a tokenizer's case: a JSON string on each line.
#include <fstream>
#include <string>
#include <vector>

// Four hexadecimal digits.
static unsigned unit_at(const std::string &line, size_t at)
{
    return std::stoul(line.substr(at, 4), nullptr, 16);
}

static void append_utf8(std::string &text, unsigned c)
{
    int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    text += char(more ? (0xFF00 >> (more + 1) & 0xFF) | c >> 6 * more : c);
    while (more-- > 0)
        text += char(0x80 | (c >> 6 * more & 0x3F));
}

static std::vector<std::string> read_texts(const char *path)
{
    std::vector<std::string> texts;
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) {
        std::string &text = texts.emplace_back(), escapes = "bfnrt", means = "\b\f\n\r\t";
        for (size_t i = 1; i + 1 < line.size(); i++) {
            if (line[i] != '\\') {
                text += line[i];
            } else if (line[++i] == 'u') {
                unsigned c = unit_at(line, i + 1);
                i += 4;
                if (c >> 10 == 0x36) { // a surrogate: the next escape is the other half
                    c = 0x10000 + (c % 0x400 << 10) + unit_at(line, i + 3) % 0x400;
                    i += 6;
                }
                append_utf8(text, c);
            } else {
                size_t at = escapes.find(line[i]);
                text += at == std::string::npos ? line[i] : means[at];
            }
        }
    }
    return texts;
}
