-- job_note: record a job without an attempt: it waits for its first one, or no node was found.
-- Replies: noted | stale (it already has an attempt, or has ended)
-- include: clock
-- include: record
local job_key    = KEYS[1]   -- string, the job's record
local recent     = KEYS[2]   -- stream of recent jobs
local job        = ARGV[1]
local session    = ARGV[2]
local utterance  = ARGV[3]
local owner      = ARGV[4]
local pool       = ARGV[5]
local also       = ARGV[6]   -- the other pools
local before     = ARGV[7]   -- states in which this may happen
local state      = ARGV[8]
local reason     = ARGV[9]   -- empty while it waits
local detail     = ARGV[10]  -- in one line
local most       = ARGV[11]  -- how many recent jobs are kept, about
local belongs_to = ARGV[12]  -- digest of the principal whose job it is, then a line with its tenant; empty: it needed no credential
local keep_ms    = ARGV[13]
local now_ms     = ARGV[14]

local known = read_record(job_key)
if known and (known.attempt ~= '0' or not string.find(before, known.state, 1, true)) then return {'stale'} end
if known and known.state == state then return {'noted'} end
local record = known or {attempt = '0', node = '-', epoch = '-', run_ms = '-', dispatched_ms = '-', utterance = utterance,
  owner = owner, pool = pool, session = session,
  rest = with_line(with_line('', 'also', also), 'belongs_to', belongs_to)}
record.rest = with_line(record.rest, 'detail', detail)
move(record, state, string.format('%.0f', clock(now_ms)), reason)
write_record(job_key, record, keep_ms)
if not known then redis.pcall('XADD', recent, 'MAXLEN', '~', most, '*', 'job', job, 'session', session) end
return {'noted'}
