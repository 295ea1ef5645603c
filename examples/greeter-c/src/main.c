/* The component's entry: what the host calls. */
#include "greeter.h"

FB_EXPORT(greeter);
