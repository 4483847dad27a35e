package harness

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// tools is a JVM that runs Kafka's command line tools, one after the other. It ends with this process, whose pipe it reads.
var tools struct {
	sync.Mutex
	in      io.Writer
	out     *bufio.Reader
	failure strings.Builder // why there is no JVM
}

// Tool runs one of Kafka's command line tools, for example "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", and returns what it printed, standard error
// included.
func Tool(class string, args ...string) (string, error) {
	tools.Lock()
	defer tools.Unlock()
	if tools.in == nil {
		if err := startTools(); err != nil {
			return "", err
		}
	}
	_, _ = fmt.Fprintln(tools.in, strings.Join(append([]string{class}, args...), "\t")) // reading tells what is wrong
	printed, err := tools.out.ReadString('\f')
	if err != nil {
		return printed, fmt.Errorf("kafka-cluster tools: %w\n%s", err, tools.failure.String())
	}
	status, err := tools.out.ReadString('\n')
	if err != nil {
		return printed, err
	}
	printed = strings.TrimSuffix(printed, "\f")
	if n, err := strconv.Atoi(strings.TrimSpace(status)); err != nil || n != 0 {
		return printed, fmt.Errorf("exit status %s", strings.TrimSpace(status))
	}
	return printed, nil
}

func startTools() error {
	cmd := exec.Command(filepath.Join(Root(), "test", "kafka", "kafka-cluster"), "tools")
	cmd.Env, cmd.Stderr = append(os.Environ(), "KAFKA_HEAP=128m", "KAFKA_TIER=1"), &tools.failure
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	tools.in, tools.out = in, bufio.NewReader(out)
	return nil
}
