package endtoend

import (
	"fmt"
	"os"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// natsEnv names the configuration with which the test's own program is a NATS server instead.
const natsEnv = "PARLEY_TEST_NATS"

func runNATS(file string) {
	o, err := natsserver.ProcessConfigFile(file)
	if err == nil {
		var s *natsserver.Server
		if s, err = natsserver.NewServer(o); err == nil {
			s.ConfigureLogger()
			s.Start()
			s.WaitForShutdown()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
