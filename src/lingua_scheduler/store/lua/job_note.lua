-- job_note: write down a job that has no attempt: it waits for its first one, or found nobody.
-- Replies: noted | stale (it has an attempt by now, or has ended)
-- include: clock
-- include: history
local job_key = KEYS[1]   -- hash, the job
local recent  = KEYS[2]   -- stream, the jobs that began here lately
local job     = ARGV[1]
local session = ARGV[2]
local before  = ARGV[3]   -- states in which this may happen
local state   = ARGV[4]
local reason  = ARGV[5]   -- empty while it waits
local stamp   = ARGV[6]   -- the field that holds when it happened
local most    = ARGV[7]   -- how many recent jobs are kept, about
local keep_ms = ARGV[8]
local now_ms  = ARGV[9]
local record  = {unpack(ARGV, 10)}  -- field, value, …

local known = redis.call('HMGET', job_key, 'state', 'attempt', 'steps')
if known[1] and (known[2] ~= '0' or not string.find(before, known[1], 1, true)) then return {'stale'} end
if known[1] == state then return {'noted'} end
local at_ms = string.format('%.0f', clock(now_ms))
redis.call('HSET', job_key, 'state', state, 'attempt', '0', 'session', session, stamp, at_ms, unpack(record))
redis.call('HSET', job_key, 'reason', reason, remembered(known[3], state, at_ms, '0', '', reason))
redis.call('PEXPIRE', job_key, keep_ms)
if not known[1] then redis.call('XADD', recent, 'MAXLEN', '~', most, '*', 'job', job, 'session', session) end
return {'noted'}
