/* The implementation unit of stb_ds. */
#define STB_DS_IMPLEMENTATION
#include "base/mem.h"
