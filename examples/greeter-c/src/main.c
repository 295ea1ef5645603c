/* Exports the controller from the component. */
#include "greeter.h"

FB_EXPORT(greeter);
