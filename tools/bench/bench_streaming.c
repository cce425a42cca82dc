/* How the model's weights are read, as chosen when it was opened. See kernels.h and bench.h.
 */
#include "bench/bench.h"
#include "model/model.h"

#include <stdio.h>

void streaming_line(const mgpt_model *m)
{
    const char *separator = "reading  ";
    for (size_t i = 0; i < N_STREAMINGS; i++) {
        int used = i == m->kernels.streaming;
        if (!used && m->streaming_rate[i] == 0)
            continue;
        printf("%s%s%zu", separator, used ? "*" : "", i);
        if (m->streaming_rate[i] > 0)
            printf(": %.2f GB/s", m->streaming_rate[i] / 1e9);
        separator = ", ";
    }
    printf("%s\n", m->streaming_rate[0] > 0 ? "" : ", not measured");
}

struct jtext *streaming_json(const mgpt_model *m)
{
    struct jtext *measured = jtext("[]");
    for (size_t i = 0; i < N_STREAMINGS; i++)
        if (m->streaming_rate[i] > 0)
            jtext_add(measured, "{s:I, s:f}", "number", (int64_t)i, "gb_per_s",
                      m->streaming_rate[i] / 1e9);
    return jtext("{s:I, s:b, s:o}", "number", (int64_t)m->kernels.streaming, "fixed",
                 m->kernels.streaming_is_fixed, "measured", measured);
}
