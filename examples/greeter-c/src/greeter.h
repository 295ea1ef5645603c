#ifndef GREETER_H
#define GREETER_H

#include "flyball.h"

#define GREETING "greeter.flyball.dev/v1/Greeting"
#define CONFIG_MAP "v1/ConfigMap"
#define FINALIZER "greeter.flyball.dev/cleanup"

/* Gives each Greeting a ConfigMap with its text. */
extern const fb_controller greeter;

#endif
