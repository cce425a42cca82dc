/* Counting cores on Windows. See cores.h. Windows has a record for each core: its hardware threads and its class,
 * of which larger numbers are faster cores. */
#include "base/cores.h"

#include <stdlib.h>
#include <windows.h>

typedef SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX core_record;

/* The records of all cores; the caller frees them. NULL: there are none. */
static core_record *read_records(DWORD *n_bytes)
{
    *n_bytes = 0;
    GetLogicalProcessorInformationEx(RelationProcessorCore, NULL, n_bytes);
    core_record *records = *n_bytes ? malloc(*n_bytes) : NULL;
    if (records && GetLogicalProcessorInformationEx(RelationProcessorCore, records, n_bytes))
        return records;
    free(records);
    return NULL;
}

static int count_bits(KAFFINITY mask)
{
    return __builtin_popcountll(mask);
}

/* Counts a core, if the process may use it. A process is in group 0 unless it has asked for more. */
static void count_core(struct cores *c, const PROCESSOR_RELATIONSHIP *core, DWORD_PTR allowed,
                       BYTE *fastest)
{
    KAFFINITY mine = core->GroupMask[0].Group == 0 ? core->GroupMask[0].Mask & allowed : 0;
    c->n_online += count_bits(core->GroupMask[0].Mask);
    if (!mine)
        return;
    BYTE class = ((const BYTE *)core)[1]; /* EfficiencyClass, which older headers do not name */
    c->n_allowed += count_bits(mine);
    c->n_physical++;
    if (class > *fastest) {
        *fastest = class;
        c->n_fast = 0;
    }
    c->n_fast += class == *fastest;
}

void cores_look(struct cores *c)
{
    DWORD n_bytes;
    DWORD_PTR allowed = 0, all = 0;
    BYTE fastest = 0;
    core_record *records = read_records(&n_bytes);
    *c = (struct cores){0};
    if (!GetProcessAffinityMask(GetCurrentProcess(), &allowed, &all) || allowed == 0)
        allowed = ~(DWORD_PTR)0; /* a process in several groups */
    for (DWORD at = 0; records && at < n_bytes;) {
        const core_record *r = (const core_record *)(const void *)((const char *)records + at);
        count_core(c, &r->Processor, allowed, &fastest);
        at += r->Size;
    }
    free(records);
    if (c->n_fast == 0)
        *c = (struct cores){1, 1, 1, 1, 0, 1};
    cores_choose(c);
}
