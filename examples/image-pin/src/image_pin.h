#ifndef IMAGE_PIN_H
#define IMAGE_PIN_H

#include "flyball.h"

#define POD "v1/Pod"
#define EXEMPT_NAMESPACES "exempt-namespaces"
#define UNPINNED "unpinned_containers"

/* Flags Pods whose images have no digest. */
extern const fb_controller image_pin;

#endif
