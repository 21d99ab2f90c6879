-- job_note: write down a job that has no attempt: it waits for its first one, or found nobody.
-- Replies: noted | stale (it has an attempt by now, or has ended)
-- include: clock
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

local known = redis.call('HMGET', job_key, 'state', 'history', 'attempt')
if known[1] and (known[3] ~= '0' or not string.find(before, known[1], 1, true)) then return {'stale'} end
local at = string.format('%.0f', clock(now_ms))
local history = state .. ' ' .. at .. ' 0 - ' .. (reason == '' and '-' or reason)
if known[1] == state then
  history = known[2]
elseif known[2] then
  history = known[2] .. '\n' .. history
end
redis.call('HSET', job_key, 'state', state, 'attempt', '0', 'session', session, stamp, at, 'history', history,
  unpack(record))
if reason ~= '' then redis.call('HSET', job_key, 'reason', reason) end
redis.call('PEXPIRE', job_key, keep_ms)
if not known[1] then redis.call('XADD', recent, 'MAXLEN', '~', most, '*', 'job', job, 'session', session) end
return {'noted'}
