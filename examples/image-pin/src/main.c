/* Exports the controller from the component. */
#include "image_pin.h"

FB_EXPORT(image_pin);
