package peers

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

// Java builds the consumers in Java below dir, and returns the command that starts one.
func Java(ctx context.Context, root, dir string) ([]string, error) {
	pom := filepath.Join(root, "bench", "peers", "pom.xml")
	jars := filepath.Join(dir, "jars")
	mvn := exec.CommandContext(ctx, "mvn", "-q", "-B", "-Dstyle.color=never", "-f", pom, "-Dout="+dir, "dependency:copy-dependencies", "-DoutputDirectory="+jars, "compile")
	if out, err := mvn.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mvn (Maven and a Java 17 JDK are needed for the consumers in Java, see -arms): %w\n%s", err, out)
	}
	return []string{"java", "-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", filepath.Join(dir, "classes") + ":" + filepath.Join(jars, "*"), "peers.Worker"}, nil
}
