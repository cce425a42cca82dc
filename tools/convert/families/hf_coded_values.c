/* What codes mean, and the values of matrices of codes. See hf_coded.h. */
#include "convert/families/hf_coded.h"
#include "convert/families/hf_quant.h"

#include <math.h>

static unsigned code_at(const struct hf_coded *m, uint64_t row, uint64_t column)
{
    if (m->bits == 8)
        return m->codes[row * m->row_bytes + column];
    /* A flat matrix with an odd number of columns has rows that begin inside a byte. */
    uint64_t i = m->flat ? row * m->n_in + column : column;
    uint8_t byte = m->codes[(m->flat ? 0 : row * m->row_bytes) + i / 2];
    return (i % 2 == 0) == !m->high_first ? byte & 15 : byte >> 4;
}

static uint64_t block_at(const struct hf_coded *m, uint64_t row, uint64_t column)
{
    if (m->flat)
        return (row * m->n_in + column) / m->columns;
    uint64_t group = m->g_idx ? hf_packed_word(m->g_idx, column) : column / m->columns;
    return row / m->rows * m->across + group;
}

void hf_coded_values(const struct state_packed *base, uint64_t row, uint64_t first, size_t n,
                     float *out)
{
    const struct hf_coded *m = (const struct hf_coded *)base;
    for (size_t i = 0; i < n; i++) {
        uint64_t block = block_at(m, row, first + i);
        float code = m->book[code_at(m, row, first + i)] - (m->zeros ? m->zeros[block] : 0);
        out[i] = code * m->scales[block] * m->factor;
    }
}

void hf_coded_books(float books[HF_N_BOOKS][HF_N_CODES])
{
    static const float e2m1[8] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
    for (int i = 0; i < HF_N_CODES; i++) {
        int exponent = i >> 3 & 15, fraction = i & 7;
        float e4m3 =
            exponent ? ldexpf((float)(8 + fraction), exponent - 10) : ldexpf((float)fraction, -9);
        e4m3 = (i & 127) == 127 ? NAN : e4m3;
        books[HF_BOOK_E4M3][i] = i < 128 ? e4m3 : -e4m3;
        books[HF_BOOK_E2M1][i] = i & 8 ? -e2m1[i & 7] : e2m1[i & 7];
        books[HF_BOOK_SIGNED][i] = (float)(i < 128 ? i : i - 256);
        books[HF_BOOK_COUNTS][i] = (float)i;
        books[HF_BOOK_AROUND_8][i] = (float)(i - 8);
        books[HF_BOOK_AROUND_128][i] = (float)(i - 128);
    }
}
