// Generator writes what the hash of a pod template depends on: the Go types of Kubernetes' API. `src/table.rs` describes the
// table. The other two files are expectations for the tests, computed with kube-controller-manager's own packages.
//
//	go run . ../types.txt ../testdata/templates.tsv ../testdata/quantities.tsv
//
// To update to another release, change the versions in go.mod, run `go mod tidy`, and run this program. `go run . 10000 SEED`
// prints 10000 other random templates in the form of templates.tsv, for the ignored test that reads them.
package main

import (
	"bytes"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"time"
)

func main() {
	// A time in a template is printed with the zone of the process, which Go reads when it is first used.
	check(os.Setenv("TZ", "UTC"))
	time.Now().Date()
	switch len(os.Args) {
	case 3:
		count, err := strconv.Atoi(os.Args[1])
		check(err)
		seed, err := strconv.ParseInt(os.Args[2], 10, 64)
		check(err)
		os.Stdout.Write(randomTemplates(rand.New(rand.NewSource(seed)), count))
	case 4:
		write(os.Args[1], table())
		random := rand.New(rand.NewSource(1))
		write(os.Args[2], bytes.Join([][]byte{plainTemplates(), fullTemplates(random), randomTemplates(random, 200)}, nil))
		write(os.Args[3], quantities(rand.New(rand.NewSource(1)), 100))
	default:
		fail("usage: go run . TYPES TEMPLATES QUANTITIES, or go run . COUNT SEED")
	}
}

func write(file string, content []byte) {
	check(os.WriteFile(file, content, 0o644))
}

func check(err error) {
	if err != nil {
		fail("%v", err)
	}
}

func fail(format string, values ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", values...)
	os.Exit(1)
}
