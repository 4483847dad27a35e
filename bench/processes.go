package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tandem-kafka/tandem/bench/peers"
)

// command runs a command in the repository's root.
func (b *bench) command(name string, args ...string) error {
	_, err := b.output(name, args...)
	return err
}

func (b *bench) output(name string, args ...string) (string, error) {
	cmd := exec.CommandContext(b.ctx, name, args...)
	cmd.Dir = b.root
	var errs bytes.Buffer
	cmd.Stderr = &errs
	cmd.WaitDelay = time.Second // what it leaves behind in the background keeps its pipes
	out, err := cmd.Output()
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, errs.String())
	}
	return string(out), nil
}

// kafka is a real broker.
type kafka struct {
	addr, dir string
	pid       int
}

// broker starts the one broker of the run on first use.
func (b *bench) broker() (*kafka, error) {
	if b.kafka != nil {
		return b.kafka, nil
	}
	k := &kafka{dir: filepath.Join(b.dir, "kafka")}
	if err := os.Mkdir(k.dir, 0o755); err != nil {
		return nil, err
	}
	settings := "log.segment.bytes=268435456\nlog.retention.ms=-1\nlog.flush.interval.messages=9223372036854775807\n" +
		"group.share.heartbeat.interval.ms=2000\ngroup.share.min.heartbeat.interval.ms=2000\n" // 100 members of a share group join within seconds
	if err := os.WriteFile(filepath.Join(k.dir, "extra.properties"), []byte(settings), 0o644); err != nil {
		return nil, err
	}
	b.kafka = k
	out, err := b.output("env", "KAFKA_HEAP=1g", filepath.Join(b.root, "test", "kafka", "kafka-cluster"), "start", k.dir, "1", strconv.Itoa(b.port))
	if err != nil {
		return nil, err
	}
	k.addr = strings.TrimSpace(out)
	pid, err := os.ReadFile(filepath.Join(k.dir, "node1", "pid"))
	if err != nil {
		return nil, err
	}
	k.pid, err = strconv.Atoi(strings.TrimSpace(string(pid)))
	return k, err
}

func (k *kafka) stop(b *bench) {
	stop, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_ = exec.CommandContext(stop, filepath.Join(b.root, "test", "kafka", "kafka-cluster"), "kill", k.dir, "1").Run()
}

// process is a child that serves clients: a gateway, or a bare forwarder.
type process struct {
	addr  string // for clients
	cmd   *exec.Cmd
	admin string
}

// gateway starts a gateway in front of the broker, on the ports from b.port+20 on.
func (b *bench) gateway(more ...string) (*process, error) {
	k, err := b.broker()
	if err != nil {
		return nil, err
	}
	listen := fmt.Sprintf("127.0.0.1:%d", b.port+20)
	admin := fmt.Sprintf("127.0.0.1:%d", b.port+19)
	args := append([]string{b.tandem, "serve", "--kafka", k.addr, "--listen", listen, "--admin", admin, "--log-level", "warn"}, more...)
	if b.profile != "" {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		if err := os.MkdirAll(b.profile, 0o755); err != nil {
			return nil, err
		}
		file := filepath.Join(b.profile, time.Now().Format("150405.000")+".prof")
		args = []string{self, "profiled-gateway", k.addr, listen, file, admin}
	}
	p, err := b.start(args...)
	if err != nil {
		return nil, err
	}
	p.admin = admin
	return p, nil
}

// forwarder starts a bare forwarder to the broker: what no gateway can beat.
func (b *bench) forwarder() (*process, error) {
	k, err := b.broker()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return b.start(self, "forwarder", k.addr, fmt.Sprintf("127.0.0.1:%d", b.port+18))
}

// start starts a child that prints "ready: bootstrap HOST:PORT".
func (b *bench) start(args ...string) (*process, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = b.logs
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd}
	line, err := bufio.NewReader(out).ReadString('\n')
	rest, ok := strings.CutPrefix(strings.TrimSpace(line), "ready: bootstrap ")
	if err != nil || !ok {
		_ = cmd.Process.Kill()
		log, _ := os.ReadFile(b.logs.Name())
		return nil, fmt.Errorf("%s did not get ready: %q %w\n%s", strings.Join(args, " "), line, cmd.Wait(), log[max(0, len(log)-2000):])
	}
	p.addr = strings.Fields(rest)[0]
	return p, nil
}

func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	done := make(chan struct{})
	go func() { _ = p.cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(15 * time.Second):
		_ = p.cmd.Process.Kill()
		<-done
	}
}

func (p *process) cpu() float64 { return peers.CPU(p.cmd.Process.Pid) }

// read is how many bytes the process has read with read(2), from brokers and clients. Spliced bytes are not in it.
func (p *process) read() float64 { return peers.Read(p.cmd.Process.Pid) }

// resident is the process's resident memory in bytes.
func (p *process) resident() float64 {
	return peers.Field(p.cmd.Process.Pid, "status", "VmRSS:") * 1024
}

// forward is the helper behind forwarder: it copies bytes as Go's io.Copy does between TCP connections, with splice.
func forward(args []string) error {
	l, err := net.Listen("tcp", args[1])
	if err != nil {
		return err
	}
	fmt.Println("ready: bootstrap", l.Addr())
	for {
		in, err := l.Accept()
		if err != nil {
			return err
		}
		out, err := net.Dial("tcp", args[0])
		if err != nil {
			return err
		}
		pipe := func(to, from net.Conn) {
			_, _ = io.Copy(to, from)
			_ = to.Close()
			_ = from.Close()
		}
		go pipe(in, out)
		go pipe(out, in)
	}
}
