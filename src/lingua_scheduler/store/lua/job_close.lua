-- job_close: end a job that has no live attempt (it found no node, or no other node).
-- Replies: closed | stale (no such job, another attempt, or it has ended)
-- include: clock
-- include: record
local job_key = KEYS[1]   -- string, the job's record
local attempt = ARGV[1]
local before  = ARGV[2]   -- states in which this may happen
local state   = ARGV[3]
local reason  = ARGV[4]
local now_ms  = ARGV[5]

local known = read_record(job_key)
if not known or known.attempt ~= attempt or not string.find(before, known.state, 1, true) then return {'stale'} end
move(known, state, string.format('%.0f', clock(now_ms)), reason)
write_record(job_key, known)
return {'closed'}
