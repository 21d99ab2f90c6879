-- room_said: number what a member said, in the order of the room. The same utterance gets the same number again: its
-- speaker may have gone on at another instance, which translates it once more. Speech keeps the room open.
-- Replies: said seq | again seq | unknown (no such room, or it is not in it any more)
-- include: clock
-- include: number
local facts   = KEYS[1]   -- hash, the room
local members = KEYS[2]   -- hash session -> what it says of itself, as JSON
local said    = KEYS[3]   -- zset "session utterance" -> its number
local id      = ARGV[1]   -- of the room that it is in
local session = ARGV[2]
local index   = ARGV[3]   -- of the utterance, in its session
local known   = ARGV[4]   -- the highest number that the caller has seen: Redis may have lost it
local most    = ARGV[5]   -- how many utterances are remembered
local keep_ms = ARGV[6]
local now_ms  = ARGV[7]

local known_as = redis.call('HMGET', facts, 'id', 'ended')
if known_as[1] ~= id or known_as[2] then return {'unknown'} end
if redis.call('HEXISTS', members, session) == 0 then return {'unknown'} end
redis.call('HSET', facts, 'active_ms', string.format('%.0f', clock(now_ms)))
local name = session .. ' ' .. index
local before = redis.call('ZSCORE', said, name)
if before then return {'again', before} end
local seq = math.max(read_number(redis.call('HGET', facts, 'seq')) or 0, tonumber(known)) + 1
redis.call('HSET', facts, 'seq', string.format('%.0f', seq))
redis.call('ZADD', said, string.format('%.0f', seq), name)
redis.call('ZREMRANGEBYRANK', said, 0, -tonumber(most) - 1)
redis.call('PEXPIRE', said, keep_ms)
return {'said', string.format('%.0f', seq)}
