/* The component's entry: what the host calls. */
#include "image_pin.h"

FB_EXPORT(image_pin);
