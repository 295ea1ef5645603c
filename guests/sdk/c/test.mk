# Builds and runs tests natively. A project's Makefile sets SDK (this folder) and SOURCES (its files without the entry), and includes
# this file.
CFLAGS ?= -g -fsanitize=address,undefined
TESTS ?= $(wildcard tests/*.c)
FAKE = $(wildcard $(SDK)/*.c $(SDK)/testing/*.c $(SDK)/vendor/*.c)
HEADERS = $(wildcard src/*.h $(SDK)/*.h $(SDK)/testing/*.h)

.PHONY: test
test: build/tests
	ASAN_OPTIONS=detect_leaks=0 build/tests

build/tests: $(TESTS) $(SOURCES) $(FAKE) $(HEADERS)
	mkdir -p build
	$(CC) -std=gnu17 -Wall -Wextra $(CFLAGS) -I$(SDK) -Isrc $(TESTS) $(SOURCES) $(FAKE) -o $@
