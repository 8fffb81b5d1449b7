package main

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"weir/internal/testenv"
)

// TestExamples runs the examples in the help of every command, in a directory with the files that
// they name, beside a running server.
func TestExamples(t *testing.T) {
	shell, redis := testenv.Shell(t), testenv.RedisServer(t)
	dir := t.TempDir()
	testenv.OK(t, os.CopyFS(dir+"/rules", os.DirFS("../../examples/envoy/rules")))
	for _, name := range []string{"envoy.yaml", "access.log"} {
		testenv.Write(t, dir+"/"+name, testenv.Read(t, "../../examples/envoy/"+name))
	}
	testenv.OK(t, os.Symlink(testenv.Must(os.Executable())(t), dir+"/weir"))
	log := start(t, inProcess(append(local[:len(local):len(local)], "--config="+dir+"/rules")...))
	log.WaitFor(t, "msg=listening")
	at := addresses(log)
	environment := append(os.Environ(), asProgram+"=1", "PATH="+dir+":"+os.Getenv("PATH"), "USER=ops", "WEIR_SERVER="+at["debug"],
		"HOST=127.0.0.1", "PORT=0", "GRPC_HOST=127.0.0.1", "GRPC_PORT=0", "DEBUG_PORT=0", "PROMETHEUS_ADDR=127.0.0.1:0", "DRAIN_DELAY=0s")
	words := []string{"redis:6379", redis.Addr(), "weir:8081", at["grpc"], "weir:6070", at["debug"], "2026-11-30T08:00", time.Now().Add(24 * time.Hour).Format("2006-01-02T15:04")}

	run := 0
	_ = kong.Visit(newParser(new(commandLine), nil, nil, nil).Model, func(v kong.Visitable, next kong.Next) error {
		command, ok := v.(*kong.Node)
		if !ok || len(command.Children) > 0 {
			return next(nil)
		}
		_, help, _ := call(t, append([]string{"help"}, strings.Fields(command.Path())...)...)
		_, list, found := strings.Cut(help, "\n\nExamples:\n")
		if !found {
			t.Errorf("%s has no example", command.Path())
		}
		for line := range strings.Lines(list) {
			run++
			line = strings.NewReplacer(words...).Replace(strings.TrimSpace(line))
			script := line
			if !strings.Contains(line, "|") {
				script = strings.Replace(line, "weir ", "exec weir ", 1) // so that signals reach the program
			}
			process := exec.Command(shell, "-c", script)
			process.Dir, process.Env = dir, environment
			var output *testenv.Log
			if lasts := command.Name == "serve" || strings.Contains(line, "--watch"); lasts {
				output = start(t, process)
				testenv.Until(t, "it prints", func() bool { return regexp.MustCompile("msg=listening|Nothing|Denied").MatchString(output.String()) })
				testenv.OK(t, process.Process.Signal(os.Interrupt))
			} else {
				output = new(testenv.Log)
				process.Stdout, process.Stderr = output, output
				testenv.OK(t, process.Start())
			}
			if err := process.Wait(); err != nil || output.String() == "" && !strings.Contains(line, ">") {
				t.Errorf("%s: %v\n%s", line, err, output)
			}
			if id := regexp.MustCompile(`exception (\S+):`).FindStringSubmatch(output.String()); id != nil {
				words = append(words, "3f9c", id[1])
			}
		}
		return next(nil)
	})
	if files, _ := os.ReadDir(dir); run < 25 || !slices.ContainsFunc(files, func(f os.DirEntry) bool { return f.Name() == "report.html" }) {
		t.Errorf("only %d examples were run", run)
	}
}
