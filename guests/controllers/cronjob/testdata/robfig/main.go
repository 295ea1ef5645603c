// Prints how github.com/robfig/cron v3.0.1 interprets many schedules, as expectations for the tests of Flyball's parser
// and search. The lines have fields with tabs between them:
//
//	error  SCHEDULE  MESSAGE
//	next   SCHEDULE  ZONE  START  TIME …
//
// ZONE is the zone of the machine, START and the TIMEs are seconds since 1970. There are up to five consecutive TIMEs.
// `none` ends them if there are no more times, and `hangs` if the search of the library does not end.
//
// `go run . >../schedules.tsv` writes the table, and `go run . 100000 SEED` prints 100000 other random lines. With the
// variable ZONEINFO, Go reads the files of the time zones from that folder. The table was written with Go 1.26.8 and
// its time zone database 2025c. In the zones and at the days of the table, the guest's database has the same changes of
// clocks.
package main

import (
	"bufio"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata"

	"github.com/robfig/cron/v3"
)

// Schedules with each form of each part of the syntax.
var valid = []string{
	"* * * * *", "? ? ? ? ?", "*/5 * * * *", "5/15 * * * *", "0-30/10 * * * *", "1,2,3 * * * *", "1,,3 * * * *", "*/7,3-4 * * * *",
	"*/100 * * * *", "59/1 * * * *", "+5 * * * *", "*-7 * * * *", "?-x/2 * * * *", "*/1 * * * *", "0 */2 * * *", "0 2 * * *",
	"30 2 * * *", "15 1 * * *", "0 0 * * *", "30 0 * * *", "59 23 * * *", "0 3 * * *", "0 1-3 * * *", "*/20 1-3 * * *",
	"0 0 1 * *", "0 0 31 * *", "0 0 30 * *", "0 12 29 2 *", "0 0 29 2 1", "59 23 31 12 *", "0 0 1 1 *", "0 0 1 1 0", "0 0 1 */3 *",
	"0 0 1 jan *", "0 0 1 JAN,Jul *", "0 0 1 jan-mar *", "0 0 1 nov/1 *", "0 0 * * sun", "0 0 * * MON-fri", "0 0 * * 1-5/2",
	"0 0 * * 0", "0 0 * * 6", "0 0 13 * 5", "0 0 13 * fri", "0 0 */10 * 5", "0 0 ? * 5", "0 0 13 * ?", "0 0 13 * */2", "0 0 */1 * 5",
	"0 0 1-7 * 1", "0 0 1-7,15-21 * 1,3", "0 0 31 4,6,9,11 *", "0 0 31 2 *", "0 0 30 2 *", "0 0 31 2 1", "0 0 31 4 ?",
	"30 6-16/4 * * 1-5", "30 10,11,12 * * 1-5", "0 22 * * 1-5", "23 0-20/2 * * *", "5 4 * * sun", "15 14 1 * *",
	"  0   0\t1\n1  * ", ", * * * *", "* , * * *", "* * , * *", "* * * , *", "* * * * ,", "* * , * 1", "* * 1 * ,",
	"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly",
	"@every 1h", "@every 1h30m", "@every 90s", "@every 1.5s", "@every 999ms", "@every 0", "@every -5m", "@every 36h", "@every 1m0.9s",
	"TZ=UTC 0 6 * * *", "CRON_TZ=Asia/Tokyo 0 6 * * *", "TZ=Local 0 6 * * *", "TZ= 0 6 * * *", "TZ=America/New_York   @daily ",
	"TZ=Asia/Kathmandu @every 1h", "CRON_TZ=Europe/Berlin 30 2 * * *", "TZ=America/Sao_Paulo 0 0 * * *",
}

var invalid = []string{
	"", " ", "*", "* * * *", "* * * * * *", "x * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 0 *", "* * * 13 *",
	"* * * * 7", "* * * * sunday", "* * * january *", "jan * * * *", "* * * mon *", "-1 * * * *", "5-1 * * * *", "1-2-3 * * * *",
	"x-2-3 * * * *", "1-x * * * *", "1/2/3 * * * *", "*/0 * * * *", "*/-5 * * * *", "*/x * * * *", "1/ * * * *", "/2 * * * *",
	"1- * * * *", "99999999999999999999 * * * *", "*/99999999999999999999 * * * *", "1.5 * * * *", "1_0 * * * *", "0x5 * * * *",
	"5-70 * * * *", "* * 0-5 * *", "* * * * 5-7", "* * * * fri-mon", "1;2 * * * *", "1,60 * * * *", "@", "@never", "@Hourly", "@hourly ",
	" @hourly", "@every", "@every ", "@every x", "@every 5", "@every 1d", "@every 3000000h", "@every  1h", "@every 1h x",
	"TZ=0", "TZ=", "CRON_TZ=UTC", "TZ=UTC ", "TZ=Nowhere 0 0 * * *", "TZ=europe/berlin 0 0 * * *", "TZ=../UTC * * * * *",
	"TZ=/UTC * * * * *", "TZ=UTC TZ=UTC * * * * *", " TZ=UTC * * * * *", "tz=UTC * * * * *", "TZ=UTC * * * *",
}

// Zones whose clocks change at midnight, by half an hour, by two hours, backwards in summer, or over a day.
var zones = []string{
	"UTC", "Europe/Berlin", "America/New_York", "Europe/Dublin", "Australia/Lord_Howe", "America/Sao_Paulo", "America/Santiago",
	"Asia/Beirut", "Africa/Cairo", "Antarctica/Troll", "Pacific/Chatham", "America/St_Johns", "Atlantic/Azores", "Asia/Kathmandu",
	"Africa/Monrovia", "Asia/Gaza", "America/Asuncion", "Asia/Amman", "America/Scoresbysund", "Europe/London", "Pacific/Apia",
}

// Days around which the clocks of some of the zones change.
var days = []string{
	"2026-01-01", "2026-02-27", "2024-02-28", "2026-03-07", "2026-03-08", "2026-03-28", "2026-03-29", "2026-04-04", "2026-04-05",
	"2026-04-23", "2026-04-24", "2026-09-05", "2026-09-06", "2026-10-03", "2026-10-04", "2026-10-24", "2026-10-25", "2026-10-29",
	"2026-10-31", "2025-11-01", "2025-11-02", "2018-11-03", "2018-11-04", "2018-02-17", "2011-12-29", "2011-12-31", "2099-12-31",
	"1972-01-06", "2000-04-01", "2000-10-29", "2095-03-01",
}

func main() {
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	if len(os.Args) > 2 {
		count, _ := strconv.Atoi(os.Args[1])
		seed, _ := strconv.ParseInt(os.Args[2], 10, 64)
		random(out, rand.New(rand.NewSource(seed)), count)
		return
	}
	for _, schedule := range invalid {
		row(out, schedule, "UTC", 0)
	}
	source := rand.New(rand.NewSource(1))
	for index, schedule := range valid {
		row(out, schedule, zones[index%len(zones)], start(source))
		row(out, schedule, pick(source, zones), start(source))
		row(out, schedule, pick(source, zones), start(source))
	}
	random(out, source, 1000)
}

// Prints lines for random schedules, zones and starts.
func random(out *bufio.Writer, source *rand.Rand, count int) {
	for range count {
		fields := []string{
			field(source, 0, 59), field(source, 0, 23), "*", "*", "*",
		}
		if source.Intn(2) == 0 {
			fields[1] = strconv.Itoa(source.Intn(4))
		}
		if source.Intn(3) == 0 {
			fields[2] = field(source, 1, 31)
		}
		if source.Intn(3) == 0 {
			fields[3] = field(source, 1, 12)
		}
		if source.Intn(3) == 0 {
			fields[4] = field(source, 0, 6)
		}
		row(out, strings.Join(fields, " "), pick(source, zones), start(source))
	}
}

func field(source *rand.Rand, min, max int) string {
	value := func() int { return min + source.Intn(max-min+1) }
	a, b := value(), value()
	if a > b {
		a, b = b, a
	}
	switch source.Intn(6) {
	case 0:
		return "*"
	case 1:
		return fmt.Sprintf("*/%d", 1+source.Intn(max))
	case 2:
		return fmt.Sprintf("%d-%d", a, b)
	case 3:
		return fmt.Sprintf("%d,%d", a, b)
	case 4:
		return fmt.Sprintf("%d-%d/%d", a, b, 1+source.Intn(5))
	default:
		return strconv.Itoa(a)
	}
}

// A time within 48 hours from the start of one of the days.
func start(source *rand.Rand) int64 {
	day, err := time.Parse(time.DateOnly, pick(source, days))
	if err != nil {
		panic(err)
	}
	return day.Unix() + int64(source.Intn(48*3600))
}

func pick(source *rand.Rand, from []string) string {
	return from[source.Intn(len(from))]
}

func row(out *bufio.Writer, text, zone string, start int64) {
	local, err := time.LoadLocation(zone)
	if err != nil {
		panic(err)
	}
	escaped := strings.NewReplacer("\t", `\t`, "\n", `\n`).Replace(text)
	schedule, err := parse(text)
	if err != nil {
		fmt.Fprintf(out, "error\t%s\t%s\n", escaped, err)
		return
	}
	fmt.Fprintf(out, "next\t%s\t%s\t%d", escaped, zone, start)
	at := time.Unix(start, 0).In(local)
	for range 5 {
		var ends bool
		if at, ends = next(schedule, at); !ends {
			fmt.Fprint(out, "\thangs")
			break
		} else if at.IsZero() {
			fmt.Fprint(out, "\tnone")
			break
		}
		fmt.Fprintf(out, "\t%d", at.Unix())
	}
	fmt.Fprintln(out)
}

// Like kube-controller-manager, turns a panic of the parser into an error.
func parse(text string) (schedule cron.Schedule, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("invalid schedule format: %v", panicked)
		}
	}()
	return cron.ParseStandard(text)
}

// Returns the next time, unless the search takes a second: where clocks skip a whole day, it may not end.
func next(schedule cron.Schedule, after time.Time) (time.Time, bool) {
	found := make(chan time.Time, 1)
	go func() { found <- schedule.Next(after) }()
	select {
	case time := <-found:
		return time, true
	case <-time.After(time.Second):
		return time.Time{}, false
	}
}
