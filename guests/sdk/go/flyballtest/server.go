package flyballtest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"

	"flyball.dev/sdk"
)

// server is the process that holds the clusters: `flyball test-server`. It ends with the tests, when its input is
// closed.
type server struct {
	mutex  sync.Mutex
	input  io.Writer
	output *bufio.Reader
}

// start starts the server of this test program.
var start = sync.OnceValue(func() *server {
	program := os.Getenv("FLYBALL")
	if program == "" {
		program = "flyball"
	}
	command := exec.Command(program, "test-server")
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		panic(err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		panic(err)
	}
	if err := command.Start(); err != nil {
		panic(fmt.Sprintf("flyballtest: tests need the program flyball: put it on the PATH, or set the variable FLYBALL to its path: %v", err))
	}
	return &server{input: input, output: bufio.NewReader(output)}
})

// reply is a line of the server's output.
type reply struct {
	OK      json.RawMessage `json:"ok"`
	Error   *failure        `json:"error"`
	Mistake string          `json:"mistake"`
}

// call makes a call, and stores its result unless that is nil. It returns the error that a controller would get. A
// mistake of the test panics.
func (server *server) call(cluster int, name string, with, result any) error {
	line, err := json.Marshal(map[string]any{"cluster": cluster, "call": name, "with": with})
	if err != nil {
		panic(fmt.Sprintf("flyballtest: %s: %v", name, err))
	}
	var reply reply
	if err := json.Unmarshal(server.ask(line), &reply); err != nil {
		panic(fmt.Sprintf("flyballtest: the reply to %s is malformed: %v", name, err))
	}
	switch {
	case reply.Mistake != "":
		panic(fmt.Sprintf("flyballtest: %s: %s", name, reply.Mistake))
	case reply.Error != nil:
		return reply.Error.of()
	case result != nil:
		decode(reply.OK, result)
	}
	return nil
}

// ask sends a line and returns the next one.
func (server *server) ask(line []byte) []byte {
	server.mutex.Lock()
	defer server.mutex.Unlock()
	if _, err := server.input.Write(append(line, '\n')); err != nil {
		panic(fmt.Sprintf("flyballtest: flyball test-server has ended: %v", err))
	}
	answer, err := server.output.ReadBytes('\n')
	if err != nil {
		panic(fmt.Sprintf("flyballtest: flyball test-server has ended: %v", err))
	}
	return answer
}

// failure is an error of the API server or of the host.
type failure struct {
	Status       int    `json:"status"`
	Reason       string `json:"reason"`
	Message      string `json:"message"`
	Effect       string `json:"effect"`
	RetryAfterMS uint32 `json:"retryAfterMs,omitempty"`
}

func (failure *failure) of() error {
	return &flyball.APIError{Status: failure.Status, Reason: failure.Reason, Message: failure.Message,
		Effect: flyball.Effect(failure.Effect), RetryAfter: milliseconds(failure.RetryAfterMS)}
}

func decode(text []byte, value any) {
	if err := json.Unmarshal(text, value); err != nil {
		panic(fmt.Sprintf("flyballtest: %T does not fit %s: %v", value, text, err))
	}
}
